SELECT vulkan_message.id, vulkan_message.key, CAST(vulkan_message.payload AS TEXT) AS payload, CAST(vulkan_message.headers AS TEXT) AS headers, vulkan_message.published_at AS published, CASE WHEN (vulkan_message.deliver_at > clock_timestamp()) THEN vulkan_message.deliver_at END AS deliver_at, vulkan_message.max_retries, vulkan_message.max_delays
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic_id_1::BIGINT
AND vulkan_message.id > :id_1::BIGINT
AND vulkan_message.id <= :id_2::BIGINT
ORDER BY vulkan_message.id
LIMIT :param_1::INTEGER
