UPDATE exception_queue
SET state=:state::VARCHAR, attempts=(exception_queue.attempts + :attempts_1::BIGINT), on_hold=(exception_queue.state = :state_1::VARCHAR), owner=:owner::VARCHAR, lease_until=(clock_timestamp() + make_interval(secs => :param_1)), claimed_at=clock_timestamp()
WHERE exception_queue.group_id = :group_id_1::BIGINT
AND exception_queue.message_id = ANY (array((SELECT exception_queue.message_id
FROM exception_queue
WHERE exception_queue.group_id = :group_id_2::BIGINT
AND exception_queue.state = :state_2::VARCHAR
AND exception_queue.message_id IN (__[POSTCOMPILE_message_id_1])
ORDER BY exception_queue.message_id
LIMIT :param_2::INTEGER FOR NO KEY UPDATE SKIP LOCKED)))
RETURNING exception_queue.message_id
