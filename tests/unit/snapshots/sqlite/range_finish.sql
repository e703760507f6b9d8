DELETE
FROM vulkan_range_claim
WHERE vulkan_range_claim.id = :id_1
AND vulkan_range_claim.owner = :owner_1
AND vulkan_range_claim.progress < :progress_1
