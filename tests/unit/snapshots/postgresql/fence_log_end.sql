SELECT vulkan_message_id_seq.last_value, vulkan_message_id_seq.is_called, pg_sequence.seqcache, pg_is_in_recovery() AS on_standby
FROM vulkan_message_id_seq
JOIN pg_sequence ON pg_sequence.seqrelid = to_regclass(:param_1)
