UPDATE vulkan_consumer_group
SET position=:position::BIGINT
WHERE vulkan_consumer_group.id = :id_1::BIGINT
