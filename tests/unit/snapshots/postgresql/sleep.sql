UPDATE vulkan_consumer_group
SET sleeper=:sleeper::VARCHAR, sleeps_until=(clock_timestamp() + make_interval(secs => :param_1))
WHERE vulkan_consumer_group.id = :id_1::BIGINT
AND (vulkan_consumer_group.sleeper IS NULL OR vulkan_consumer_group.sleeper = :sleeper_1::VARCHAR OR vulkan_consumer_group.sleeps_until < clock_timestamp())
AND set_config(:set_config_1::VARCHAR, :set_config_2::VARCHAR, true) IS NOT NULL
