WITH fence AS MATERIALIZED
(SELECT vulkan_topic.id AS id, pg_advisory_xact_lock_shared(CAST(:param_1::INTEGER AS INTEGER), CAST(vulkan_topic.id AS INTEGER)) AS fence, (SELECT count(pg_notify(vulkan_consumer_group.sleepers[:sleepers_1::INTEGER], CAST(vulkan_consumer_group.id AS TEXT))) AS count_1
FROM vulkan_consumer_group
WHERE vulkan_consumer_group.topic_id = vulkan_topic.id
AND vulkan_consumer_group.sleeps_until > clock_timestamp()
AND vulkan_consumer_group.sleepers[:sleepers_1::INTEGER] IS NOT NULL) AS hints
FROM vulkan_topic
WHERE vulkan_topic.name = :topic::VARCHAR),
drawn AS MATERIALIZED
(SELECT anon_2.id AS id, anon_3.key AS key, nextval('vulkan_message_id_seq') AS message_id
FROM (SELECT CAST(fence.id AS BIGINT) AS id
FROM fence
WHERE fence.fence IS NOT NULL
AND fence.hints IS NOT NULL) AS anon_2
JOIN jsonb_to_recordset(CAST(:document::VARCHAR AS JSONB)) AS anon_3(place BIGINT, key VARCHAR(255)) ON 1 = 1)
INSERT INTO vulkan_idempotency_key (topic_id, key, message_id, created_at)
SELECT drawn.id, drawn.key, drawn.message_id, clock_timestamp() AS anon_1
FROM drawn
WHERE 1 = 1
ORDER BY drawn.key
ON CONFLICT DO NOTHING
RETURNING vulkan_idempotency_key.key, vulkan_idempotency_key.message_id
