UPDATE exception_queue
SET state=:state::VARCHAR, payload=CAST(anon_1.payload AS JSONB), headers=CAST(anon_1.headers AS JSONB)
FROM jsonb_to_recordset(CAST(:document::VARCHAR AS JSONB)) AS anon_1(group_id BIGINT, message_id BIGINT, payload TEXT, headers TEXT)
WHERE exception_queue.group_id = anon_1.group_id
AND exception_queue.message_id = anon_1.message_id
