UPDATE vulkan_range_claim
SET progress=CASE WHEN (vulkan_range_claim.progress > :progress_1) THEN vulkan_range_claim.progress ELSE :param_1 END, running=:running, owner=:owner, lease_until=:lease_until
WHERE vulkan_range_claim.id = :id_1
AND vulkan_range_claim.owner = :owner_1
AND vulkan_range_claim.progress < :progress_2
