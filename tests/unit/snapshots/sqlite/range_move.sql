UPDATE vulkan_range_claim
SET progress=:progress, running=:running, lease_until=strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', :param_1))
WHERE vulkan_range_claim.id = :id_1
AND vulkan_range_claim.owner = :owner_1
AND vulkan_range_claim.progress < :progress_1
