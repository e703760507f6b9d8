UPDATE vulkan_consumer_group
SET sleeper=:sleeper, sleeps_until=strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', :param_1))
WHERE vulkan_consumer_group.id = :id_1
AND (vulkan_consumer_group.sleeper IS NULL OR vulkan_consumer_group.sleeper = :sleeper_1 OR vulkan_consumer_group.sleeps_until < strftime('%Y-%m-%d %H:%M:%f000', 'now'))
