UPDATE exception_queue
SET state=:state, attempts=(exception_queue.attempts + :attempts_1), on_hold=(exception_queue.state = :state_1), owner=:claimed_by, lease_until=strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', :lease)), claimed_at=strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE exception_queue.group_id = :of_group
AND exception_queue.message_id IN (SELECT chosen.message_id
FROM (SELECT json_extract(member.value, :json_extract_1) AS message_id
FROM json_each(:document) AS member
ORDER BY member."key") AS chosen)
