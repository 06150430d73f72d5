-- Format 12: the exchanges of a record, so that restoring it need not fold all of its events; an index for open records
-- of one agent and name; what a turn cost and may use, and an index for sums over turns. Never edited once released.

-- One row for each prompt and its reply. They follow from the events, up to the event in exchange_folds.
CREATE TABLE exchanges (
  key         INTEGER PRIMARY KEY, -- (record << 40) | number, from 1
  first       INTEGER NOT NULL,    -- its first event
  branch      INTEGER NOT NULL,    -- the exchanges of one ACP session have one number
  prompt      TEXT    NOT NULL,    -- its beginning, without white space
  prompt_rest INTEGER NOT NULL,    -- how many bytes follow that
  answered    INTEGER NOT NULL,    -- 1 if the agent ended the turn
  reply       TEXT    NOT NULL,    -- its beginning
  reply_rest  INTEGER NOT NULL,    -- how many bytes follow that
  checksum    INTEGER NOT NULL
) STRICT;

-- The state that continues the exchanges of a record. A record without a row has no exchanges yet; they are added when
-- it is next restored.
CREATE TABLE exchange_folds (
  record   INTEGER PRIMARY KEY REFERENCES records (key),
  through  INTEGER NOT NULL, -- the last event that is included
  state    TEXT    NOT NULL, -- a JSON object
  checksum INTEGER NOT NULL
) STRICT;

CREATE INDEX records_named ON records (scope_agent, scope_name)
  WHERE scope_agent IS NOT NULL AND closed_at IS NULL AND deleted_at IS NULL;

-- The columns belong to the checksum of their row up to the last one that is not null, so a row of an older format
-- keeps the one it has.
ALTER TABLE turns ADD COLUMN cost INTEGER;    -- billionths of the currency; null if unknown
ALTER TABLE turns ADD COLUMN currency TEXT;
ALTER TABLE turns ADD COLUMN max_usage TEXT;  -- limits of cost and tokens, a JSON object; null for none

-- Sums are read from this index alone: the rows themselves have the prompts.
CREATE INDEX turns_usage ON turns (record, ended_at, cost, currency,
  CASE WHEN json_valid(usage) THEN usage ->> '$.inputTokens' END,
  CASE WHEN json_valid(usage) THEN usage ->> '$.outputTokens' END,
  CASE WHEN json_valid(usage) THEN usage ->> '$.cachedReadTokens' END,
  CASE WHEN json_valid(usage) THEN usage ->> '$.cachedWriteTokens' END,
  CASE WHEN json_valid(usage) THEN usage ->> '$.thoughtTokens' END,
  CASE WHEN json_valid(usage) THEN usage ->> '$.totalTokens' END)
  WHERE ended_at IS NOT NULL;
