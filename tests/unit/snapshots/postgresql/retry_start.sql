UPDATE exception_queue
SET state=:state::VARCHAR, attempts=(exception_queue.attempts + :attempts_1::BIGINT), on_hold=(exception_queue.state = :state_1::VARCHAR), owner=:claimed_by::VARCHAR, lease_until=(clock_timestamp() + make_interval(secs => :lease)), claimed_at=clock_timestamp()
FROM jsonb_to_recordset(CAST(:document::VARCHAR AS JSONB)) AS anon_1(group_id BIGINT, message_id BIGINT)
WHERE exception_queue.group_id = anon_1.group_id
AND exception_queue.message_id = anon_1.message_id
