SELECT vulkan_message.id, vulkan_message."key", vulkan_message.payload AS payload, vulkan_message.headers AS headers, vulkan_message.published_at AS published, CASE WHEN (vulkan_message.deliver_at > strftime('%Y-%m-%d %H:%M:%f000', 'now')) THEN vulkan_message.deliver_at END AS deliver_at, vulkan_message.max_retries, vulkan_message.max_delays
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic
AND vulkan_message.id > (SELECT held.position
FROM (SELECT vulkan_consumer_group.position AS position
FROM vulkan_consumer_group
WHERE vulkan_consumer_group.id = :group) AS held)
AND vulkan_message.id <= :upto
AND NOT (EXISTS (SELECT vulkan_range_claim.id
FROM vulkan_range_claim
WHERE vulkan_range_claim.group_id = :group
AND (vulkan_range_claim.owner IS NULL OR vulkan_range_claim.lease_until < strftime('%Y-%m-%d %H:%M:%f000', 'now'))))
ORDER BY vulkan_message.id
LIMIT :limit OFFSET :param_1
