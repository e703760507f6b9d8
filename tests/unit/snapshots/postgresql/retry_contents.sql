SELECT vulkan_message.id, CAST(vulkan_message.payload AS TEXT) AS payload, vulkan_message.headers
FROM vulkan_message
JOIN jsonb_to_recordset(CAST(:document::VARCHAR AS JSONB)) AS anon_1(message_id BIGINT) ON anon_1.message_id = vulkan_message.id
WHERE vulkan_message.topic_id = :topic::BIGINT
