UPDATE vulkan_range_claim
SET lease_until=(clock_timestamp() + make_interval(secs => :param_1))
WHERE vulkan_range_claim.owner = :owner_1::VARCHAR
