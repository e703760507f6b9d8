UPDATE vulkan_range_claim
SET claims=(vulkan_range_claim.claims + :claims_1::BIGINT), careful=:careful, owner=:owner::VARCHAR, lease_until=(clock_timestamp() + make_interval(secs => :param_1))
WHERE vulkan_range_claim.id = :id_1::BIGINT
