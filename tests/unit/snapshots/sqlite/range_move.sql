UPDATE vulkan_range_claim
SET progress=:done_to, running=:runs, lease_until=strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', :lease))
WHERE vulkan_range_claim.id = :range
AND vulkan_range_claim.owner = :held_by
AND vulkan_range_claim.progress < :before
