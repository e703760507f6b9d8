UPDATE vulkan_range_claim
SET progress=CASE WHEN (vulkan_range_claim.progress > :done_to) THEN vulkan_range_claim.progress ELSE :done_to END, running=:running, owner=:owner, lease_until=:lease_until
WHERE vulkan_range_claim.id = :range
AND vulkan_range_claim.owner = :held_by
AND vulkan_range_claim.progress < :before
