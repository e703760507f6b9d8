UPDATE exception_queue
SET state=:state, attempts=(exception_queue.attempts + :attempts_1), on_hold=(exception_queue.state = :state_1), owner=:claimed_by, lease_until=strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', :lease)), claimed_at=strftime('%Y-%m-%d %H:%M:%f000', 'now')
FROM (SELECT json_extract(member.value, :json_extract_1) AS group_id, json_extract(member.value, :json_extract_2) AS message_id
FROM json_each(:document) AS member
ORDER BY member."key") AS chosen
WHERE exception_queue.group_id = chosen.group_id
AND exception_queue.message_id = chosen.message_id
