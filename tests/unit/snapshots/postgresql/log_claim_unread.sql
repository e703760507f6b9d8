WITH held AS MATERIALIZED
(SELECT vulkan_consumer_group.position AS position
FROM vulkan_consumer_group
WHERE vulkan_consumer_group.id = :group::BIGINT
AND set_config(:set_config_1::VARCHAR, :set_config_2::VARCHAR, true) IS NOT NULL FOR NO KEY UPDATE),
unread AS MATERIALIZED
(SELECT vulkan_message.id AS id, vulkan_message.key AS key, CAST(vulkan_message.payload AS TEXT) AS payload, CAST(vulkan_message.headers AS TEXT) AS headers, vulkan_message.published_at AS published, CASE WHEN (vulkan_message.deliver_at > clock_timestamp()) THEN vulkan_message.deliver_at END AS deliver_at, vulkan_message.max_retries AS max_retries, vulkan_message.max_delays AS max_delays
FROM vulkan_message
WHERE vulkan_message.topic_id = :topic::BIGINT
AND vulkan_message.id > (SELECT held.position
FROM held)
AND vulkan_message.id <= :upto::BIGINT
AND NOT (EXISTS (SELECT vulkan_range_claim.id
FROM vulkan_range_claim
WHERE vulkan_range_claim.group_id = :group::BIGINT
AND (vulkan_range_claim.owner IS NULL OR vulkan_range_claim.lease_until < clock_timestamp())))
ORDER BY vulkan_message.id
LIMIT :limit::BIGINT),
ends AS
(SELECT min(unread.id) AS first, max(unread.id) AS last
FROM unread
HAVING count(*) > :count_1::INTEGER),
moved AS
(UPDATE vulkan_consumer_group
SET position=(SELECT ends.last
FROM ends), sleepers=(vulkan_consumer_group.sleepers[:sleepers_1::INTEGER::sleepers_2::INTEGER])
WHERE vulkan_consumer_group.id = :group::BIGINT
AND (EXISTS (SELECT ends.last
FROM ends))
RETURNING vulkan_consumer_group.id),
added AS
(INSERT INTO vulkan_range_claim (group_id, first, last, progress, claims, careful, owner, lease_until)
SELECT :group::BIGINT AS anon_1, ends.first AS first, ends.last AS last, ends.first - :first_1::BIGINT AS anon_2, 1, false, :owner AS anon_3, (clock_timestamp() + make_interval(secs => :lease)) AS anon_4
FROM ends
RETURNING vulkan_range_claim.id)
SELECT unread.id, unread.key, unread.payload, unread.headers, unread.published, unread.deliver_at, unread.max_retries, unread.max_delays, (SELECT added.id
FROM added) AS range
FROM unread
ORDER BY unread.id
