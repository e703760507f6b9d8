INSERT INTO vulkan_range_claim (group_id, first, last, progress, claims, careful, owner, lease_until) VALUES (:group_id::INTEGER, :first::INTEGER, :last::INTEGER, (:first::INTEGER - :param_1::INTEGER), 1, false, :owner::VARCHAR, (clock_timestamp() + make_interval(secs => :param_2)))
RETURNING vulkan_range_claim.id
