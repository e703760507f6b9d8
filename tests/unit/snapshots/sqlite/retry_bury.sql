UPDATE exception_queue
SET state=:state, payload=CAST(chosen.payload AS TEXT), headers=CAST(chosen.headers AS TEXT)
FROM (SELECT json_extract(member.value, :json_extract_1) AS group_id, json_extract(member.value, :json_extract_2) AS message_id, json_extract(member.value, :json_extract_3) AS payload, json_extract(member.value, :json_extract_4) AS headers
FROM json_each(:document) AS member
ORDER BY member."key") AS chosen
WHERE exception_queue.group_id = chosen.group_id
AND exception_queue.message_id = chosen.message_id
