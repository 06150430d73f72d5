-- Format 8: which rows refer to a long text, so that one that nobody refers to any more can be erased with its record.
-- Never edited once released.

CREATE INDEX events_with_blob ON events (blob) WHERE blob IS NOT NULL;
CREATE INDEX turns_with_blob ON turns (prompt_blob) WHERE prompt_blob IS NOT NULL;
