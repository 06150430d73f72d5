-- Format 6: how long a turn may take. Never edited once released.

-- The columns belong to the checksum of their row if they are not null, so a row of an older format keeps the one it has.
ALTER TABLE turns ADD COLUMN limit_ms INTEGER;   -- from acceptance to end; null for no limit
ALTER TABLE turns ADD COLUMN silence_ms INTEGER; -- without a word from the agent; null for no limit
