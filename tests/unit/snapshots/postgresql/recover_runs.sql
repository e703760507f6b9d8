SELECT exception_queue.group_id, exception_queue.message_id, exception_queue.attempts, exception_queue.owner, exception_queue.careful, exception_queue.on_hold, exception_queue.claimed_at, CAST(EXTRACT(epoch
FROM clock_timestamp() - exception_queue.claimed_at) AS DOUBLE PRECISION) AS seconds
FROM exception_queue
WHERE exception_queue.state = 'running'
AND exception_queue.lease_until < clock_timestamp()
ORDER BY exception_queue.lease_until
LIMIT :param_1::INTEGER FOR NO KEY UPDATE SKIP LOCKED
