-- Format 3: the version of the protocol that a record's agent is asked for, and what agents answered to initialize.
-- Never edited once released.

-- The column belongs to the checksum of its row if it is not null, so a row of an older format keeps the one it has.
ALTER TABLE records ADD COLUMN protocol INTEGER; -- 2, or null for the first

-- So that a client can be told what its agent can do before the agent runs.
CREATE TABLE agent_answers (
  command  TEXT    NOT NULL PRIMARY KEY, -- the program and its arguments, a JSON array of strings
  program  TEXT    NOT NULL,             -- the program's file as it stood: its path, size and time
  answer   TEXT    NOT NULL,             -- the result of initialize, secret values replaced
  checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
