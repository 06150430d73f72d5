-- Format 9: what a record's agent remembers of the conversation, as far as that is known. Never edited once released.

-- The column belongs to the checksum of its row if it is not null, so a row of an older format keeps the one it has.
ALTER TABLE records ADD COLUMN memory TEXT; -- a JSON object, or null for all of it
