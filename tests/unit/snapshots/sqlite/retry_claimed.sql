SELECT exception_queue.message_id AS id, exception_queue."key", coalesce(vulkan_message.payload, exception_queue.payload) AS payload, coalesce(vulkan_message.headers, exception_queue.headers) AS headers, exception_queue.published_at AS published, exception_queue.max_retries, exception_queue.max_delays, exception_queue.attempts, exception_queue.delays, exception_queue.interruptions, exception_queue.granted_retries, exception_queue.granted_delays, exception_queue.careful, exception_queue.on_hold
FROM exception_queue
JOIN vulkan_consumer_group ON vulkan_consumer_group.id = exception_queue.group_id LEFT OUTER
JOIN vulkan_message ON vulkan_message.topic_id = vulkan_consumer_group.topic_id
AND vulkan_message.id = exception_queue.message_id
WHERE exception_queue.group_id = :group_id_1
AND exception_queue.message_id IN (__[POSTCOMPILE_message_id_1])
AND exception_queue.owner = :owner_1
ORDER BY exception_queue.can_run_after, exception_queue.message_id
