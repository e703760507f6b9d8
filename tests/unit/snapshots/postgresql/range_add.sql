INSERT INTO vulkan_range_claim (group_id, first, last, progress, claims, careful, owner, lease_until) VALUES (:group_id::BIGINT, :first::BIGINT, :last::BIGINT, :progress::BIGINT, :claims::BIGINT, :careful, :owner::VARCHAR, (clock_timestamp() + make_interval(secs => :param_1)))
RETURNING vulkan_range_claim.id
