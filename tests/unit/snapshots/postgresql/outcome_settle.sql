UPDATE exception_queue
SET state=anon_1.state, delays=(exception_queue.delays + anon_1.delays), interruptions=(exception_queue.interruptions + anon_1.interruptions), can_run_after=greatest((clock_timestamp() + make_interval(secs => anon_1.wait)), anon_1.until), careful=anon_1.careful, on_hold=false, owner=:owner::VARCHAR, lease_until=:lease_until::TIMESTAMP WITH TIME ZONE, last_error=coalesce(anon_1.last_error, exception_queue.last_error), payload=coalesce(CAST(anon_1.payload AS JSONB), exception_queue.payload), headers=coalesce(CAST(anon_1.headers AS JSONB), exception_queue.headers)
FROM jsonb_to_recordset(CAST(:document::VARCHAR AS JSONB)) AS anon_1(group_id BIGINT, message_id BIGINT, attempts BIGINT, owner VARCHAR, state VARCHAR, delays BIGINT, interruptions BIGINT, wait DOUBLE PRECISION, until TIMESTAMP WITH TIME ZONE, careful BOOLEAN, last_error TEXT, payload TEXT, headers TEXT)
WHERE exception_queue.group_id = anon_1.group_id
AND exception_queue.message_id = anon_1.message_id
AND exception_queue.attempts = anon_1.attempts
AND exception_queue.owner = anon_1.owner
RETURNING exception_queue.message_id
