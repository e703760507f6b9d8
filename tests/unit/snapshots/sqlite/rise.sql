UPDATE vulkan_consumer_group
SET sleeper=:sleeper, sleeps_until=:sleeps_until
WHERE vulkan_consumer_group.id = :id_1
AND vulkan_consumer_group.sleeper = :sleeper_1
