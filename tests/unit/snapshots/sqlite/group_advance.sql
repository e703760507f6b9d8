UPDATE vulkan_consumer_group
SET position=:position, sleeper=:sleeper, sleeps_until=:sleeps_until
WHERE vulkan_consumer_group.id = :id_1
