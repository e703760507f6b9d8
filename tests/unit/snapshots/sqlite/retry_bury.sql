UPDATE exception_queue
SET state=:state, payload=coalesce(exception_queue.payload, (SELECT vulkan_message.payload
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic
AND vulkan_message.id = exception_queue.message_id)), headers=coalesce(exception_queue.headers, (SELECT vulkan_message.headers
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic
AND vulkan_message.id = exception_queue.message_id))
WHERE exception_queue.group_id = :of_group
AND exception_queue.message_id IN (SELECT chosen.message_id
FROM (SELECT json_extract(member.value, :json_extract_1) AS message_id
FROM json_each(:document) AS member
ORDER BY member."key") AS chosen)
