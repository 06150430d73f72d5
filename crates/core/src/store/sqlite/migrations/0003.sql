-- Format 3: the version of the protocol that a record's agent is asked for. Never edited once released.
-- The column belongs to the checksum of its row if it is not null, so a row of an older format keeps the one it has.

ALTER TABLE records ADD COLUMN protocol INTEGER; -- 2, or null for the first
