SELECT vulkan_range_claim.id, vulkan_range_claim.group_id, vulkan_range_claim.first, vulkan_range_claim.last, vulkan_range_claim.progress, vulkan_range_claim.running, vulkan_range_claim.claims, vulkan_range_claim.careful, vulkan_range_claim.owner, vulkan_range_claim.lease_until
FROM vulkan_range_claim
WHERE vulkan_range_claim.group_id = :group_id_1::BIGINT
AND (vulkan_range_claim.owner IS NULL OR vulkan_range_claim.lease_until < clock_timestamp())
ORDER BY vulkan_range_claim.first
LIMIT :param_1::INTEGER FOR NO KEY UPDATE SKIP LOCKED
