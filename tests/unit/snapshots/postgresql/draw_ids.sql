WITH fence AS MATERIALIZED
(SELECT vulkan_topic.id AS id, pg_advisory_xact_lock_shared(CAST(:param_1::INTEGER AS INTEGER), CAST(vulkan_topic.id AS INTEGER)) AS fence, (SELECT count(pg_notify(vulkan_consumer_group.sleepers[:sleepers_1::INTEGER], CAST(vulkan_consumer_group.id AS TEXT))) AS count_1
FROM vulkan_consumer_group
WHERE vulkan_consumer_group.topic_id = vulkan_topic.id
AND vulkan_consumer_group.sleeps_until > clock_timestamp()
AND vulkan_consumer_group.sleepers[:sleepers_1::INTEGER] IS NOT NULL) AS hints
FROM vulkan_topic
WHERE vulkan_topic.name = :topic::VARCHAR)
SELECT anon_1.id AS topic_id, array_agg(nextval('vulkan_message_id_seq')) AS ids, clock_timestamp() AS published_at
FROM (SELECT CAST(fence.id AS BIGINT) AS id
FROM fence
WHERE fence.fence IS NOT NULL
AND fence.hints IS NOT NULL) AS anon_1
JOIN generate_series(:generate_series_1::INTEGER, :count::INTEGER) AS anon_2 ON 1 = 1 GROUP BY anon_1.id
