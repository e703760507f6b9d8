SELECT vulkan_range_claim.id
FROM vulkan_range_claim
WHERE vulkan_range_claim.group_id = :group_id_1::BIGINT
AND vulkan_range_claim.owner = :owner_1::VARCHAR
AND vulkan_range_claim.progress < :progress_1::BIGINT
AND vulkan_range_claim.last >= :last_1::BIGINT FOR NO KEY UPDATE
