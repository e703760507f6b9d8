UPDATE exception_queue
SET lease_until=strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', :param_1))
WHERE exception_queue.owner = :owner_1
AND exception_queue.state = 'running'
