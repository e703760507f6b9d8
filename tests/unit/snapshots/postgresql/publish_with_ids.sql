WITH fence AS MATERIALIZED
(SELECT vulkan_topic.id AS id, pg_advisory_xact_lock_shared(CAST(:param_1::INTEGER AS INTEGER), CAST(vulkan_topic.id AS INTEGER)) AS fence, (SELECT count(pg_notify(vulkan_consumer_group.sleepers[:sleepers_1::INTEGER], CAST(vulkan_consumer_group.id AS TEXT))) AS count_1
FROM vulkan_consumer_group
WHERE vulkan_consumer_group.topic_id = vulkan_topic.id
AND vulkan_consumer_group.sleeps_until > clock_timestamp()
AND vulkan_consumer_group.sleepers[:sleepers_1::INTEGER] IS NOT NULL) AS hints
FROM vulkan_topic
WHERE vulkan_topic.name = :topic::VARCHAR)
INSERT INTO vulkan_message (topic_id, payload, published_at, deliver_at, key, headers, max_retries, max_delays, id)
SELECT anon_1.id, coalesce(anon_2.payload, 'null') AS coalesce_1, clock_timestamp() AS anon_3, CASE WHEN (anon_2.delay IS NOT NULL) THEN (clock_timestamp() + make_interval(secs => anon_2.delay)) ELSE anon_2.deliver_at END AS anon_4, anon_2.key, anon_2.headers, anon_2.max_retries, anon_2.max_delays, anon_2.id AS id_1
FROM (SELECT CAST(fence.id AS BIGINT) AS id
FROM fence
WHERE fence.fence IS NOT NULL
AND fence.hints IS NOT NULL) AS anon_1
JOIN jsonb_to_recordset(CAST(:document::VARCHAR AS JSONB)) AS anon_2(id BIGINT, key VARCHAR(255), payload JSONB, headers JSONB, deliver_at TIMESTAMP WITH TIME ZONE, delay DOUBLE PRECISION, max_retries BIGINT, max_delays BIGINT) ON 1 = 1
RETURNING vulkan_message.id
