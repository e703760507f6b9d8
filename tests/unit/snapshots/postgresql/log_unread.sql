WITH held AS MATERIALIZED
(SELECT vulkan_consumer_group.position AS position
FROM vulkan_consumer_group
WHERE vulkan_consumer_group.id = :group::BIGINT
AND set_config(:set_config_1::VARCHAR, :set_config_2::VARCHAR, true) IS NOT NULL FOR NO KEY UPDATE)
SELECT vulkan_message.id, vulkan_message.key, CAST(vulkan_message.payload AS TEXT) AS payload, CAST(vulkan_message.headers AS TEXT) AS headers, vulkan_message.published_at AS published, CASE WHEN (vulkan_message.deliver_at > clock_timestamp()) THEN vulkan_message.deliver_at END AS deliver_at, vulkan_message.max_retries, vulkan_message.max_delays
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic::BIGINT
AND vulkan_message.id > (SELECT held.position
FROM held)
AND vulkan_message.id <= :upto::BIGINT
AND NOT (EXISTS (SELECT vulkan_range_claim.id
FROM vulkan_range_claim
WHERE vulkan_range_claim.group_id = :group::BIGINT
AND (vulkan_range_claim.owner IS NULL OR vulkan_range_claim.lease_until < clock_timestamp())))
ORDER BY vulkan_message.id
LIMIT :limit::BIGINT
