SELECT pg_locks.virtualtransaction
FROM pg_locks
WHERE pg_locks.locktype = :locktype_1::VARCHAR
AND pg_locks.database = (SELECT pg_database.oid
FROM pg_database
WHERE pg_database.datname = current_database())
AND CAST(pg_locks.classid AS BIGINT) = :param_1::BIGINT
AND CAST(pg_locks.objid AS BIGINT) = :param_2::BIGINT
AND pg_locks.objsubid = :objsubid_1::INTEGER
AND pg_locks.mode = :mode_1::VARCHAR
AND pg_locks.granted
AND pg_locks.pid IS DISTINCT
FROM pg_backend_pid()
