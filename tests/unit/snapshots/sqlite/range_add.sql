INSERT INTO vulkan_range_claim (group_id, first, last, progress, claims, careful, owner, lease_until) VALUES (:group_id, :first, :last, (:first - :param_1), 1, false, :owner, strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', :param_2)))
RETURNING id
