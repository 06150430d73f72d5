-- Format 10: why the agent last failed to restore a record's session, and why a lineage row began. Never edited once
-- released.

-- The columns belong to the checksums of their rows if they are not null, so a row of an older format keeps the one it has.
ALTER TABLE records ADD COLUMN restore_error TEXT; -- a JSON object, or null once a restore succeeds
ALTER TABLE lineage ADD COLUMN error TEXT;         -- the same, of the restore that failed before the row began
