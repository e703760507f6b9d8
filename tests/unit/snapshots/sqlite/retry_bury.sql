UPDATE exception_queue
SET state=:state, payload=CAST(chosen.payload AS TEXT), headers=chosen.headers
FROM (SELECT json_extract(member.value, :json_extract_1) AS group_id, json_extract(member.value, :json_extract_2) AS message_id, json_extract(member.value, :json_extract_3) AS payload, member.value -> :value_1 AS headers
FROM json_each(:document) AS member
ORDER BY member."key") AS chosen
WHERE exception_queue.group_id = chosen.group_id
AND exception_queue.message_id = chosen.message_id
