UPDATE vulkan_consumer_group
SET position=:position::BIGINT, sleepers=(vulkan_consumer_group.sleepers[:sleepers_1::INTEGER::sleepers_2::INTEGER])
WHERE vulkan_consumer_group.id = :id_1::BIGINT
