-- Format 11: the user's title of a record, the usage that its agent last reported, and an index for the list of a
-- directory. Never edited once released.

-- The columns belong to the checksum of their row up to the last one that is not null, so a row of an older format
-- keeps the one it has.
ALTER TABLE records ADD COLUMN user_title TEXT; -- null while the user has chosen none
ALTER TABLE records ADD COLUMN usage TEXT;      -- a JSON object, or null if none was reported

CREATE INDEX records_in_directory ON records (real_cwd, updated_at DESC, id DESC) WHERE deleted_at IS NULL;
