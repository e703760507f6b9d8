UPDATE vulkan_consumer_group
SET position=:position::BIGINT, sleeper=:sleeper::VARCHAR, sleeps_until=:sleeps_until::TIMESTAMP WITH TIME ZONE
WHERE vulkan_consumer_group.id = :id_1::BIGINT
