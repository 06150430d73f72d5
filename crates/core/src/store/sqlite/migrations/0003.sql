-- Format 3: what agents answered to initialize, so that a client can be told what its agent can do before the agent
-- runs. Never edited once released.

CREATE TABLE agent_answers (
  command  TEXT    NOT NULL PRIMARY KEY, -- the program and its arguments, a JSON array of strings
  program  TEXT    NOT NULL,             -- the program's file as it stood: its path, size and time
  answer   TEXT    NOT NULL,             -- the result of initialize, secret values replaced
  checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
