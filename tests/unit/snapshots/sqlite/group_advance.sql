UPDATE vulkan_consumer_group
SET position=:position
WHERE vulkan_consumer_group.id = :id_1
