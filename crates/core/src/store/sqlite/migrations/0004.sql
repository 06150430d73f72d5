-- Format 4: settings. And the row of a record no longer tells of every event: while an agent talks, it is written once a
-- second, and the record's last event is the last one that there is. A program of an earlier format would number the next
-- one by the row, so it must not write. Never edited once released.
-- The columns that are added here belong to the checksum of their row up to the last one that is not null, so a row of an
-- older format keeps the one it has.

ALTER TABLE records ADD COLUMN settings TEXT; -- a JSON object: what was chosen, and how it last stood; null if nothing is known
