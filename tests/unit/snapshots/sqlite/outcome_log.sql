INSERT INTO delivery_log (group_id, message_id, attempt, outcome, became, duration, owner, error_code, error_type, error_text, traceback, started_at, logged_at)
SELECT report.group_id, report.message_id, report.attempt, report.outcome, report.became, report.duration, report.owner, error.error_code, error.error_type, error.error_text, error.traceback, strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', -report.age)) AS anon_1, strftime('%Y-%m-%d %H:%M:%f000', 'now') AS anon_2
FROM (SELECT json_extract(member.value, :json_extract_1) AS group_id, json_extract(member.value, :json_extract_2) AS message_id, json_extract(member.value, :json_extract_3) AS attempt, json_extract(member.value, :json_extract_4) AS outcome, json_extract(member.value, :json_extract_5) AS became, json_extract(member.value, :json_extract_6) AS duration, json_extract(member.value, :json_extract_7) AS owner, json_extract(member.value, :json_extract_8) AS age, json_extract(member.value, :json_extract_9) AS error
FROM json_each(:document) AS member
ORDER BY member."key") AS report LEFT OUTER
JOIN (SELECT json_extract(member.value, :json_extract_10) AS error_code, json_extract(member.value, :json_extract_11) AS error_type, json_extract(member.value, :json_extract_12) AS error_text, json_extract(member.value, :json_extract_13) AS traceback, json_extract(member.value, :json_extract_14) AS number
FROM json_each(:errors) AS member
ORDER BY member."key") AS error ON error.number = report.error
