UPDATE vulkan_consumer_group
SET sleeper=:sleeper::VARCHAR, sleeps_until=:sleeps_until::TIMESTAMP WITH TIME ZONE
WHERE vulkan_consumer_group.id = :id_1::BIGINT
AND vulkan_consumer_group.sleeper = :sleeper_1::VARCHAR
AND set_config(:set_config_1::VARCHAR, :set_config_2::VARCHAR, true) IS NOT NULL
