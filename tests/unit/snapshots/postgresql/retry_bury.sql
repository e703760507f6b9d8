UPDATE exception_queue
SET state=:state::VARCHAR, payload=coalesce(exception_queue.payload, (SELECT vulkan_message.payload
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic::BIGINT
AND vulkan_message.id = exception_queue.message_id)), headers=coalesce(exception_queue.headers, (SELECT vulkan_message.headers
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic::BIGINT
AND vulkan_message.id = exception_queue.message_id))
WHERE exception_queue.group_id = :of_group::BIGINT
AND exception_queue.message_id = ANY (array((SELECT anon_1.message_id
FROM jsonb_to_recordset(CAST(:document::VARCHAR AS JSONB)) AS anon_1(message_id BIGINT))))
