UPDATE exception_queue
SET state=:state, attempts=(exception_queue.attempts + :attempts_1), on_hold=(exception_queue.state = :state_1), owner=:owner, lease_until=strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', :param_1)), claimed_at=strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE exception_queue.group_id = :group_id_1
AND exception_queue.message_id IN (SELECT exception_queue.message_id
FROM exception_queue
WHERE exception_queue.group_id = :group_id_2
AND exception_queue.state = :state_2
AND exception_queue.message_id IN (__[POSTCOMPILE_message_id_1])
ORDER BY exception_queue.message_id
LIMIT :param_2 OFFSET :param_3)
RETURNING message_id
