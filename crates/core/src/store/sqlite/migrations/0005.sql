-- Format 5: what a turn's policy says beside its mode.
-- Never edited once released.

-- The columns belong to the checksum of their row up to the last one that is not null, so a row of an older format
-- keeps the one it has.
ALTER TABLE turns ADD COLUMN tool_policy TEXT; -- the rules for single tools, a JSON object
ALTER TABLE turns ADD COLUMN unasked TEXT;     -- fail or wait, or null for deny
