-- A store of format 12 as the last program of that format wrote it, dumped. Never edited: what this file says
-- must stay readable.
PRAGMA foreign_keys = OFF; -- the tables come by name, each with its rows
PRAGMA page_size = 4096;
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA application_id = 1633906808;
PRAGMA user_version = 12;
BEGIN TRANSACTION;
CREATE TABLE agent_answers (
  command  TEXT    NOT NULL PRIMARY KEY, -- the program and its arguments, a JSON array of strings
  program  TEXT    NOT NULL,             -- the program's file as it stood: its path, size and time
  answer   TEXT    NOT NULL,             -- the result of initialize, secret values replaced
  checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE blobs (
  hash  BLOB NOT NULL UNIQUE, -- SHA-256 of the bytes
  bytes BLOB NOT NULL
) STRICT;
CREATE TABLE events (
  key       INTEGER PRIMARY KEY, -- (record << 40) | seq
  record    INTEGER GENERATED ALWAYS AS (key >> 40) VIRTUAL,
  seq       INTEGER GENERATED ALWAYS AS (key & 0xFFFFFFFFFF) VIRTUAL,
  at        INTEGER NOT NULL,
  turn      INTEGER,
  lineage   INTEGER NOT NULL,
  protocol  INTEGER NOT NULL,
  direction INTEGER NOT NULL, -- 1 from the agent, 2 to the agent, 3 ours
  kind      INTEGER NOT NULL, -- 1 update, 2 notification, 3 request, 4 response, 5 fact
  checksum  INTEGER NOT NULL, -- the computed columns left out
  body      TEXT,             -- either the body itself
  blob      BLOB              -- or the hash of one over 64 KiB
) STRICT;
INSERT INTO events (key, at, turn, lineage, protocol, direction, kind, checksum, body, blob) VALUES (1099511627777, 10, NULL, 1, 1, 1, 1, 4124928920, 'one', NULL);
INSERT INTO events (key, at, turn, lineage, protocol, direction, kind, checksum, body, blob) VALUES (1099511627778, 10, NULL, 1, 1, 1, 1, 2299155595, 'two', NULL);
CREATE TABLE exchange_folds (
  record   INTEGER PRIMARY KEY REFERENCES records (key),
  through  INTEGER NOT NULL, -- the last event that is included
  state    TEXT    NOT NULL, -- a JSON object
  checksum INTEGER NOT NULL
) STRICT;
INSERT INTO exchange_folds (record, through, state, checksum) VALUES (1, 1, '{"count":1,"branch":0,"branches":0,"lastMessageAt":10,"current":{"number":1}}', 845429891);
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
INSERT INTO exchanges (key, first, branch, prompt, prompt_rest, answered, reply, reply_rest, checksum) VALUES (1099511627777, 1, 0, 'doit', 0, 1, '', 0, 2260100963);
CREATE TABLE imports (
  directory   BLOB    NOT NULL, -- the bytes of its path
  file        TEXT    NOT NULL,
  modified_ns INTEGER NOT NULL, -- since 1970
  size        INTEGER NOT NULL,
  record      TEXT,             -- the id of the record it became, if it did
  outcome     TEXT    NOT NULL,
  checksum    INTEGER NOT NULL,
  PRIMARY KEY (directory, file)
) STRICT, WITHOUT ROWID;
CREATE TABLE leases (
  record     INTEGER PRIMARY KEY REFERENCES records (key),
  host       TEXT    NOT NULL,
  generation INTEGER NOT NULL,
  checksum   INTEGER NOT NULL
) STRICT;
INSERT INTO leases (record, host, generation, checksum) VALUES (1, 'h', 1, 4078571437);
INSERT INTO leases (record, host, generation, checksum) VALUES (2, 'h', 1, 3097226671);
CREATE TABLE lineage (
  record        INTEGER NOT NULL REFERENCES records (key),
  row           INTEGER NOT NULL, -- from 1
  session       TEXT    NOT NULL,
  agent_session TEXT,
  began_at      INTEGER NOT NULL,
  replaced_at   INTEGER,
  reason        TEXT    NOT NULL,
  checksum      INTEGER NOT NULL, error TEXT,
  PRIMARY KEY (record, row)
) STRICT, WITHOUT ROWID;
INSERT INTO lineage (record, row, session, agent_session, began_at, replaced_at, reason, checksum, error) VALUES (1, 1, 's', NULL, 5, 7, 'created', 1911151032, NULL);
INSERT INTO lineage (record, row, session, agent_session, began_at, replaced_at, reason, checksum, error) VALUES (1, 2, 's2', NULL, 7, NULL, 'load-failed', 565395849, NULL);
INSERT INTO lineage (record, row, session, agent_session, began_at, replaced_at, reason, checksum, error) VALUES (2, 1, 's', NULL, 5, NULL, 'created', 2146815635, NULL);
CREATE TABLE records (
  key               INTEGER PRIMARY KEY,
  id                TEXT    NOT NULL UNIQUE,
  agent_name        TEXT,
  program           TEXT    NOT NULL,
  args              TEXT    NOT NULL, -- a JSON array
  start_timeout_ms  INTEGER NOT NULL,
  cwd               TEXT    NOT NULL,
  real_cwd          TEXT    NOT NULL,
  mcp_servers       TEXT    NOT NULL, -- a JSON array of names
  title             TEXT,
  closed_at         INTEGER,
  created_at        INTEGER NOT NULL,
  checksum          INTEGER NOT NULL, -- over the columns before it
  updated_at        INTEGER NOT NULL,
  last_seq          INTEGER,
  last_turn         INTEGER,
  answered_turns    INTEGER NOT NULL,
  lineage_rows      INTEGER NOT NULL, -- how many there are
  open_turns        INTEGER NOT NULL, -- how many there are
  standing_checksum INTEGER NOT NULL -- over the key and the columns between the two checksums
, scope_agent TEXT, scope_name TEXT, run_pid INTEGER, run_started INTEGER, run_boot TEXT, run_since INTEGER, run_ended_at INTEGER, run_ended_how TEXT, deleted_at INTEGER, protocol INTEGER, settings TEXT, additional_directories TEXT, memory TEXT, restore_error TEXT, user_title TEXT, usage TEXT) STRICT;
INSERT INTO records (key, id, agent_name, program, args, start_timeout_ms, cwd, real_cwd, mcp_servers, title, closed_at, created_at, checksum, updated_at, last_seq, last_turn, answered_turns, lineage_rows, open_turns, standing_checksum, scope_agent, scope_name, run_pid, run_started, run_boot, run_since, run_ended_at, run_ended_how, deleted_at, protocol, settings, additional_directories, memory, restore_error, user_title, usage) VALUES (1, 'r', NULL, 'agent', '["--quiet"]', 120000, '/work', '/work', '[{"name":"files","source":"/etc/servers.json"}]', 'the agent''s title', NULL, 5, 2357839139, 5, 2, 1, 0, 2, 0, 1393859762, 'claude', 'name', 77, 5, 'boot', 5, 6, 'exit status: 1', NULL, 2, '{"wished":[{"value":"plan"},{"option":"web","value":true}],"shown":[{"value":"ask"},{"option":"model","category":"model","value":"m1","choices":["m1"]},{"option":"web","flag":true}],"unmet":[{"reason":"no"}]}', '["/more"]', '{"how":"fresh","from":3,"reason":"agent-lost"}', '{"method":"session/load","code":-32602,"message":"Invalid params","field":"cwd","at":6}', 'mine', '{"used":7,"size":200000,"cost":{"amount":2,"currency":"USD"}}');
INSERT INTO records (key, id, agent_name, program, args, start_timeout_ms, cwd, real_cwd, mcp_servers, title, closed_at, created_at, checksum, updated_at, last_seq, last_turn, answered_turns, lineage_rows, open_turns, standing_checksum, scope_agent, scope_name, run_pid, run_started, run_boot, run_since, run_ended_at, run_ended_how, deleted_at, protocol, settings, additional_directories, memory, restore_error, user_title, usage) VALUES (2, 'plain', NULL, 'agent', '["--quiet"]', 120000, '/work', '/work', '["files"]', NULL, NULL, 5, 3451419697, 5, NULL, 1, 0, 1, 1, 432951209, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE turns (
  record        INTEGER NOT NULL REFERENCES records (key),
  turn          INTEGER NOT NULL, -- from 1
  request       TEXT    NOT NULL,
  state         TEXT    NOT NULL, -- queued, dispatched, ended, interrupted
  policy        TEXT    NOT NULL,
  queued_at     INTEGER NOT NULL,
  dispatched_at INTEGER,
  ended_at      INTEGER,
  stop_reason   TEXT,
  error_code    TEXT,
  error_message TEXT,
  error_acp     TEXT,
  checksum      INTEGER NOT NULL,
  prompt        TEXT,             -- either the prompt itself
  prompt_blob   BLOB, usage TEXT, approved INTEGER, rejected INTEGER, fallback TEXT, carry_history INTEGER, tool_policy TEXT, unasked TEXT, limit_ms INTEGER, silence_ms INTEGER, cost INTEGER, currency TEXT, max_usage TEXT,             -- or the hash of one over 64 KiB
  PRIMARY KEY (record, turn),
  UNIQUE (record, request)
) STRICT;
INSERT INTO turns (record, turn, request, state, policy, queued_at, dispatched_at, ended_at, stop_reason, error_code, error_message, error_acp, checksum, prompt, prompt_blob, usage, approved, rejected, fallback, carry_history, tool_policy, unasked, limit_ms, silence_ms, cost, currency, max_usage) VALUES (1, 1, 'q1', 'interrupted', 'deny-all', 7, NULL, 8, NULL, NULL, NULL, NULL, 3382048141, '[]', NULL, '{}', 2, 1, 'never', 1, '{"autoDeny":["edit"]}', 'wait', 90000, 1500, 250000000, 'USD', '{"turn":{"cost":{"amount":0.5,"currency":"USD"}},"session":{"tokens":9}}');
INSERT INTO turns (record, turn, request, state, policy, queued_at, dispatched_at, ended_at, stop_reason, error_code, error_message, error_acp, checksum, prompt, prompt_blob, usage, approved, rejected, fallback, carry_history, tool_policy, unasked, limit_ms, silence_ms, cost, currency, max_usage) VALUES (2, 1, 'q1', 'queued', 'deny-all', 7, NULL, NULL, NULL, NULL, NULL, NULL, 144905653, '[]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE INDEX events_with_blob ON events (blob) WHERE blob IS NOT NULL;
CREATE INDEX records_by_update ON records (updated_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX records_in_directory ON records (real_cwd, updated_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX records_in_scope ON records (scope_agent, real_cwd, scope_name)
  WHERE scope_agent IS NOT NULL AND closed_at IS NULL AND deleted_at IS NULL;
CREATE INDEX records_named ON records (scope_agent, scope_name)
  WHERE scope_agent IS NOT NULL AND closed_at IS NULL AND deleted_at IS NULL;
CREATE INDEX records_once_in_scope ON records (scope_agent, real_cwd, scope_name, closed_at)
  WHERE scope_agent IS NOT NULL AND closed_at IS NOT NULL;
CREATE INDEX records_running ON records (run_pid) WHERE run_pid IS NOT NULL AND run_ended_at IS NULL;
CREATE INDEX turns_open ON turns (record, turn) WHERE state IN ('queued', 'dispatched');
CREATE INDEX turns_usage ON turns (record, ended_at, cost, currency,
  CASE WHEN json_valid(usage) THEN usage ->> '$.inputTokens' END,
  CASE WHEN json_valid(usage) THEN usage ->> '$.outputTokens' END,
  CASE WHEN json_valid(usage) THEN usage ->> '$.cachedReadTokens' END,
  CASE WHEN json_valid(usage) THEN usage ->> '$.cachedWriteTokens' END,
  CASE WHEN json_valid(usage) THEN usage ->> '$.thoughtTokens' END,
  CASE WHEN json_valid(usage) THEN usage ->> '$.totalTokens' END)
  WHERE ended_at IS NOT NULL;
CREATE INDEX turns_with_blob ON turns (prompt_blob) WHERE prompt_blob IS NOT NULL;
COMMIT;
