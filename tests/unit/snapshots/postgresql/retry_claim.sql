UPDATE exception_queue
SET state=:state::VARCHAR, attempts=(exception_queue.attempts + :attempts_1::BIGINT), on_hold=(exception_queue.state = :state_1::VARCHAR), owner=:owner::VARCHAR, lease_until=(clock_timestamp() + make_interval(secs => :param_1)), claimed_at=clock_timestamp()
WHERE exception_queue.group_id = :group_id_1::BIGINT
AND exception_queue.message_id = ANY (array((SELECT exception_queue.message_id
FROM exception_queue
WHERE exception_queue.group_id = :group_id_2::BIGINT
AND exception_queue.state = 'ready'
AND exception_queue.can_run_after <= clock_timestamp()
AND exception_queue.careful IS false
AND exception_queue.attempts - exception_queue.delays <= CASE WHEN (exception_queue.max_retries < :max_retries_1::BIGINT) THEN exception_queue.max_retries ELSE :param_2::INTEGER END + exception_queue.granted_retries
ORDER BY exception_queue.can_run_after
LIMIT :param_3::INTEGER FOR NO KEY UPDATE SKIP LOCKED)))
RETURNING exception_queue.message_id
