SELECT exception_queue.message_id, exception_queue."key", coalesce((SELECT vulkan_message.payload AS payload
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic
AND vulkan_message.id = exception_queue.message_id), exception_queue.payload) AS payload, coalesce((SELECT vulkan_message.headers AS headers
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic
AND vulkan_message.id = exception_queue.message_id), exception_queue.headers) AS headers, exception_queue.published_at AS published, exception_queue.max_retries, exception_queue.max_delays, exception_queue.attempts, exception_queue.delays, exception_queue.interruptions, exception_queue.granted_retries, exception_queue.granted_delays, exception_queue.careful
FROM exception_queue
WHERE exception_queue.group_id = :of_group
AND exception_queue.state = :state_1
AND exception_queue.message_id IN (__[POSTCOMPILE_message_id_1])
ORDER BY exception_queue.message_id
LIMIT :most OFFSET :param_1
