-- Format 7: the directories beside its own whose files belong to a record's session.
-- Never edited once released.

-- The column belongs to the checksum of its row if it is not null, so a row of an older format keeps the one it has.
ALTER TABLE records ADD COLUMN additional_directories TEXT; -- a JSON array of absolute paths, or null for none
