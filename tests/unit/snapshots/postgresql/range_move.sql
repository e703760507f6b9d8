UPDATE vulkan_range_claim
SET progress=:progress::BIGINT, running=:running::BIGINT, lease_until=(clock_timestamp() + make_interval(secs => :param_1))
WHERE vulkan_range_claim.id = :id_1::BIGINT
AND vulkan_range_claim.owner = :owner_1::VARCHAR
AND vulkan_range_claim.progress < :progress_1::BIGINT
