UPDATE exception_queue
SET state=:state, payload=coalesce(exception_queue.payload, (SELECT vulkan_message.payload
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic_id_1
AND vulkan_message.id = exception_queue.message_id)), headers=coalesce(exception_queue.headers, (SELECT vulkan_message.headers
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic_id_1
AND vulkan_message.id = exception_queue.message_id))
WHERE exception_queue.group_id = :group_id_1
AND exception_queue.state = 'ready'
AND exception_queue.can_run_after <= strftime('%Y-%m-%d %H:%M:%f000', 'now')
AND exception_queue.attempts - exception_queue.delays > CASE WHEN (exception_queue.max_retries < :max_retries_1) THEN exception_queue.max_retries ELSE :param_1 END + exception_queue.granted_retries
RETURNING message_id
