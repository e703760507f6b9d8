DELETE
FROM exception_queue
WHERE (exception_queue.group_id, exception_queue.message_id, exception_queue.attempts, exception_queue.owner) IN (SELECT report.group_id, report.message_id, report.attempts, report.owner
FROM (SELECT json_extract(member.value, :json_extract_1) AS group_id, json_extract(member.value, :json_extract_2) AS message_id, json_extract(member.value, :json_extract_3) AS attempts, json_extract(member.value, :json_extract_4) AS owner
FROM json_each(:document) AS member
ORDER BY member."key") AS report)
RETURNING message_id
