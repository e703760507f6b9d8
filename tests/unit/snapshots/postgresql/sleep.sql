UPDATE vulkan_consumer_group
SET sleepers=array_append(CASE WHEN (vulkan_consumer_group.sleeps_until < clock_timestamp()) THEN NULL ELSE array_remove(vulkan_consumer_group.sleepers, :array_remove_1::VARCHAR) END, :array_append_1::VARCHAR), sleeps_until=(clock_timestamp() + make_interval(secs => :param_1))
WHERE vulkan_consumer_group.id = :id_1::BIGINT
AND (vulkan_consumer_group.sleeps_until < clock_timestamp() OR coalesce(cardinality(CASE WHEN (vulkan_consumer_group.sleeps_until < clock_timestamp()) THEN NULL ELSE array_remove(vulkan_consumer_group.sleepers, :array_remove_1::VARCHAR) END), :coalesce_1::INTEGER) < :coalesce_2::INTEGER)
AND set_config(:set_config_1::VARCHAR, :set_config_2::VARCHAR, true) IS NOT NULL
