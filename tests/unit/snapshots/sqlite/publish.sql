INSERT INTO vulkan_message (topic_id, payload, published_at, deliver_at, "key", headers, max_retries, max_delays)
SELECT anon_1.id, coalesce(draft.payload, 'null') AS coalesce_1, strftime('%Y-%m-%d %H:%M:%f000', 'now') AS anon_2, CASE WHEN (draft.delay IS NOT NULL) THEN strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', draft.delay)) ELSE draft.deliver_at END AS anon_3, draft."key", draft.headers, draft.max_retries, draft.max_delays
FROM (SELECT vulkan_topic.id AS id
FROM vulkan_topic
WHERE vulkan_topic.name = :topic) AS anon_1
JOIN (SELECT json_extract(member.value, :json_extract_1) AS id, json_extract(member.value, :json_extract_2) AS "key", member.value -> :value_1 AS payload, member.value -> :value_2 AS headers, json_extract(member.value, :json_extract_3) AS deliver_at, json_extract(member.value, :json_extract_4) AS delay, json_extract(member.value, :json_extract_5) AS max_retries, json_extract(member.value, :json_extract_6) AS max_delays
FROM json_each(:document) AS member
ORDER BY member."key") AS draft ON 1 = 1
RETURNING id
