SELECT vulkan_consumer_group.position, (SELECT vulkan_message.id
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic_id_1
AND vulkan_message.id > vulkan_consumer_group.position
ORDER BY vulkan_message.id
LIMIT :param_1 OFFSET :param_2) AS unread, EXISTS (SELECT vulkan_range_claim.id
FROM vulkan_range_claim
WHERE vulkan_range_claim.group_id = :group_id_1
AND (vulkan_range_claim.owner IS NULL OR vulkan_range_claim.lease_until < strftime('%Y-%m-%d %H:%M:%f000', 'now'))) AS waiting, (julianday(strftime('%Y-%m-%d %H:%M:%f000', 'now')) - julianday((SELECT exception_queue.can_run_after
FROM exception_queue
WHERE exception_queue.group_id = :group_id_2
AND exception_queue.state = 'ready'
ORDER BY exception_queue.can_run_after
LIMIT :param_3 OFFSET :param_4))) * :param_5 AS overdue, vulkan_consumer_group.sleepers, (julianday(strftime('%Y-%m-%d %H:%M:%f000', 'now')) - julianday(vulkan_consumer_group.sleeps_until)) * :param_6 AS overslept
FROM vulkan_consumer_group
WHERE vulkan_consumer_group.id = :id_1
