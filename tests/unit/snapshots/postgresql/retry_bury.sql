UPDATE exception_queue
SET state=:state::VARCHAR, payload=coalesce(exception_queue.payload, (SELECT vulkan_message.payload
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic_id_1::BIGINT
AND vulkan_message.id = exception_queue.message_id)), headers=coalesce(exception_queue.headers, (SELECT vulkan_message.headers
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic_id_1::BIGINT
AND vulkan_message.id = exception_queue.message_id))
WHERE exception_queue.group_id = :group_id_1::BIGINT
AND exception_queue.state = 'ready'
AND exception_queue.can_run_after <= clock_timestamp()
AND exception_queue.attempts - exception_queue.delays > CASE WHEN (exception_queue.max_retries < :max_retries_1::BIGINT) THEN exception_queue.max_retries ELSE :param_1::INTEGER END + exception_queue.granted_retries
RETURNING exception_queue.message_id
