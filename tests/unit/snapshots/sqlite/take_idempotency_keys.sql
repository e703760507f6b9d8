INSERT INTO vulkan_idempotency_key (topic_id, "key", message_id, created_at)
SELECT drawn.id, drawn."key", drawn.message_id, strftime('%Y-%m-%d %H:%M:%f000', 'now') AS anon_1
FROM (SELECT anon_2.id AS id, wanted."key" AS "key", coalesce((SELECT sqlite_sequence.seq
FROM sqlite_sequence
WHERE sqlite_sequence.name = :name_1), 0) + wanted.place AS message_id
FROM (SELECT vulkan_topic.id AS id
FROM vulkan_topic
WHERE vulkan_topic.name = :topic) AS anon_2
JOIN (SELECT json_extract(member.value, :json_extract_1) AS place, json_extract(member.value, :json_extract_2) AS "key"
FROM json_each(:document) AS member
ORDER BY member."key") AS wanted ON 1 = 1) AS drawn
WHERE 1 = 1
ORDER BY drawn."key"
ON CONFLICT DO NOTHING
RETURNING "key", message_id
