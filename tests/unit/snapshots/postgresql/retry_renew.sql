UPDATE exception_queue
SET lease_until=(clock_timestamp() + make_interval(secs => :param_1))
WHERE exception_queue.owner = :owner_1::VARCHAR
AND exception_queue.state = 'running'
