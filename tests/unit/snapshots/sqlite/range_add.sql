INSERT INTO vulkan_range_claim (group_id, first, last, progress, claims, careful, owner, lease_until) VALUES (:group_id, :first, :last, :progress, :claims, :careful, :owner, strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', :param_1)))
RETURNING id
