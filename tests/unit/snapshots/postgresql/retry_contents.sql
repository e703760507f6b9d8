SELECT vulkan_message.id, CAST(vulkan_message.payload AS TEXT) AS payload, vulkan_message.headers
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic::BIGINT
AND vulkan_message.id = ANY (array((SELECT anon_1.message_id
FROM jsonb_to_recordset(CAST(:document::VARCHAR AS JSONB)) AS anon_1(message_id BIGINT))))
