-- Format 4: what was chosen of a record's settings, and how they last stood. Never edited once released.

-- The column belongs to the checksum of its row if it is not null, so a row of an older format keeps the one it has.
ALTER TABLE records ADD COLUMN settings TEXT; -- a JSON object, or null if nothing is known of any
