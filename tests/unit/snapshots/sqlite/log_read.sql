SELECT vulkan_message.id, vulkan_message."key", vulkan_message.payload AS payload, vulkan_message.headers AS headers, vulkan_message.published_at AS published, CASE WHEN (vulkan_message.deliver_at > strftime('%Y-%m-%d %H:%M:%f000', 'now')) THEN vulkan_message.deliver_at END AS deliver_at, vulkan_message.max_retries, vulkan_message.max_delays
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic_id_1
AND vulkan_message.id > :id_1
AND vulkan_message.id <= :id_2
ORDER BY vulkan_message.id
LIMIT :param_1 OFFSET :param_2
