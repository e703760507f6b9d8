UPDATE vulkan_range_claim
SET claims=(vulkan_range_claim.claims + :claims_1), careful=:careful, owner=:owner, lease_until=strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', :param_1))
WHERE vulkan_range_claim.id = :id_1
