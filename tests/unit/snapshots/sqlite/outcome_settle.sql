UPDATE exception_queue
SET state=report.state, delays=(exception_queue.delays + report.delays), interruptions=(exception_queue.interruptions + report.interruptions), can_run_after=max(strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', report.wait)), coalesce(report.until, strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', report.wait)))), careful=report.careful, on_hold=false, owner=:owner, lease_until=:lease_until, last_error=coalesce(report.last_error, exception_queue.last_error), payload=coalesce(CAST(report.payload AS TEXT), exception_queue.payload), headers=coalesce(CAST(report.headers AS TEXT), exception_queue.headers)
FROM (SELECT json_extract(member.value, :json_extract_1) AS group_id, json_extract(member.value, :json_extract_2) AS message_id, json_extract(member.value, :json_extract_3) AS attempts, json_extract(member.value, :json_extract_4) AS owner, json_extract(member.value, :json_extract_5) AS state, json_extract(member.value, :json_extract_6) AS delays, json_extract(member.value, :json_extract_7) AS interruptions, json_extract(member.value, :json_extract_8) AS wait, json_extract(member.value, :json_extract_9) AS until, json_extract(member.value, :json_extract_10) AS careful, json_extract(member.value, :json_extract_11) AS last_error, json_extract(member.value, :json_extract_12) AS payload, json_extract(member.value, :json_extract_13) AS headers
FROM json_each(:document) AS member
ORDER BY member."key") AS report
WHERE exception_queue.group_id = report.group_id
AND exception_queue.message_id = report.message_id
AND exception_queue.attempts = report.attempts
AND exception_queue.owner = report.owner
RETURNING message_id
