DELETE
FROM vulkan_range_claim
WHERE vulkan_range_claim.id = :range::BIGINT
AND vulkan_range_claim.owner = :held_by::VARCHAR
AND vulkan_range_claim.progress < :before::BIGINT
