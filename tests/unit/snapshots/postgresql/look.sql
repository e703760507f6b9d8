SELECT vulkan_consumer_group.position, (SELECT vulkan_message.id
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic_id_1::BIGINT
AND vulkan_message.id > vulkan_consumer_group.position
ORDER BY vulkan_message.id
LIMIT :param_1::INTEGER) AS unread, EXISTS (SELECT vulkan_range_claim.id
FROM vulkan_range_claim
WHERE vulkan_range_claim.group_id = :group_id_1::BIGINT
AND (vulkan_range_claim.owner IS NULL OR vulkan_range_claim.lease_until < clock_timestamp())) AS waiting, CAST(EXTRACT(epoch
FROM clock_timestamp() - (SELECT exception_queue.can_run_after
FROM exception_queue
WHERE exception_queue.group_id = :group_id_2::BIGINT
AND exception_queue.state = 'ready'
ORDER BY exception_queue.can_run_after
LIMIT :param_2::INTEGER)) AS DOUBLE PRECISION) AS overdue, vulkan_consumer_group.sleepers, CAST(EXTRACT(epoch
FROM clock_timestamp() - vulkan_consumer_group.sleeps_until) AS DOUBLE PRECISION) AS overslept
FROM vulkan_consumer_group
WHERE vulkan_consumer_group.id = :id_1::BIGINT
