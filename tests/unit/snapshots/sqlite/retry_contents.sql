SELECT vulkan_message.id, vulkan_message.payload AS payload, vulkan_message.headers
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic
AND vulkan_message.id IN (SELECT chosen.message_id
FROM (SELECT json_extract(member.value, :json_extract_1) AS message_id
FROM json_each(:document) AS member
ORDER BY member."key") AS chosen)
