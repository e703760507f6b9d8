DELETE
FROM vulkan_range_claim
WHERE vulkan_range_claim.id = :id_1::BIGINT
AND vulkan_range_claim.owner = :owner_1::VARCHAR
AND vulkan_range_claim.progress < :progress_1::BIGINT
