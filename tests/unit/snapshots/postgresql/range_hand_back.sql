UPDATE vulkan_range_claim
SET progress=CASE WHEN (vulkan_range_claim.progress > :done_to::BIGINT) THEN vulkan_range_claim.progress ELSE :done_to::BIGINT END, running=:running::BIGINT, owner=:owner::VARCHAR, lease_until=:lease_until::TIMESTAMP WITH TIME ZONE
WHERE vulkan_range_claim.id = :range::BIGINT
AND vulkan_range_claim.owner = :held_by::VARCHAR
AND vulkan_range_claim.progress < :before::BIGINT
