SELECT exception_queue.group_id, exception_queue.message_id, exception_queue.attempts, exception_queue.owner, exception_queue.careful, exception_queue.on_hold, exception_queue.claimed_at, (julianday(strftime('%Y-%m-%d %H:%M:%f000', 'now')) - julianday(exception_queue.claimed_at)) * :param_1 AS seconds
FROM exception_queue
WHERE exception_queue.state = 'running'
AND exception_queue.lease_until < strftime('%Y-%m-%d %H:%M:%f000', 'now')
ORDER BY exception_queue.lease_until
LIMIT :param_2 OFFSET :param_3
