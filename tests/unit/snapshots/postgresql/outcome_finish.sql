DELETE
FROM exception_queue
WHERE (exception_queue.group_id, exception_queue.message_id, exception_queue.attempts, exception_queue.owner) IN (SELECT anon_1.group_id, anon_1.message_id, anon_1.attempts, anon_1.owner
FROM jsonb_to_recordset(CAST(:document::VARCHAR AS JSONB)) AS anon_1(group_id BIGINT, message_id BIGINT, attempts BIGINT, owner VARCHAR))
RETURNING exception_queue.message_id
