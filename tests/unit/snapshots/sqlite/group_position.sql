SELECT vulkan_consumer_group.position
FROM vulkan_consumer_group
WHERE vulkan_consumer_group.id = :id_1
