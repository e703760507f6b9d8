DELETE
FROM vulkan_range_claim
WHERE vulkan_range_claim.id = :range
AND vulkan_range_claim.owner = :held_by
AND vulkan_range_claim.progress < :before
