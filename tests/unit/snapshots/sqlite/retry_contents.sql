SELECT vulkan_message.id, vulkan_message.payload AS payload, vulkan_message.headers
FROM vulkan_message
JOIN (SELECT json_extract(member.value, :json_extract_1) AS message_id
FROM json_each(:document) AS member
ORDER BY member."key") AS chosen ON chosen.message_id = vulkan_message.id
WHERE vulkan_message.topic_id = :topic
