UPDATE vulkan_range_claim
SET progress=CASE WHEN (vulkan_range_claim.progress > :progress_1::BIGINT) THEN vulkan_range_claim.progress ELSE :param_1::INTEGER END, running=:running::BIGINT, owner=:owner::VARCHAR, lease_until=:lease_until::TIMESTAMP WITH TIME ZONE
WHERE vulkan_range_claim.id = :id_1::BIGINT
AND vulkan_range_claim.owner = :owner_1::VARCHAR
AND vulkan_range_claim.progress < :progress_2::BIGINT
