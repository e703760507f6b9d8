UPDATE vulkan_range_claim
SET progress=:done_to::BIGINT, running=:runs::BIGINT, lease_until=(clock_timestamp() + make_interval(secs => :lease))
WHERE vulkan_range_claim.id = :range::BIGINT
AND vulkan_range_claim.owner = :held_by::VARCHAR
AND vulkan_range_claim.progress < :before::BIGINT
