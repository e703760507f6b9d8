UPDATE exception_queue
SET state=:state, attempts=(exception_queue.attempts + :attempts_1), on_hold=(exception_queue.state = :state_1), owner=:owner, lease_until=strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', :param_1)), claimed_at=strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE exception_queue.group_id = :group_id_1
AND exception_queue.message_id IN (SELECT exception_queue.message_id
FROM exception_queue
WHERE exception_queue.group_id = :group_id_2
AND exception_queue.state = 'ready'
AND exception_queue.can_run_after <= strftime('%Y-%m-%d %H:%M:%f000', 'now')
AND exception_queue.careful IS 0
AND exception_queue.attempts - exception_queue.delays <= CASE WHEN (exception_queue.max_retries < :max_retries_1) THEN exception_queue.max_retries ELSE :param_2 END + exception_queue.granted_retries
ORDER BY exception_queue.can_run_after
LIMIT :param_3 OFFSET :param_4)
RETURNING message_id
