UPDATE vulkan_consumer_group
SET sleepers=array_remove(vulkan_consumer_group.sleepers, :array_remove_1::VARCHAR)
WHERE vulkan_consumer_group.id = :id_1::BIGINT
AND set_config(:set_config_1::VARCHAR, :set_config_2::VARCHAR, true) IS NOT NULL
