-- Format 1. Never edited once released: a change of format is a new file.
-- Times are milliseconds since 1970 in UTC. Names of states, policies and reasons are the program's stable names.
-- A checksum is over all other columns of its row, in their order, unless it says otherwise.

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
) STRICT;

CREATE INDEX records_by_update ON records (updated_at DESC, id DESC);

-- The one writer of a record: the host that has its highest generation.
CREATE TABLE leases (
  record     INTEGER PRIMARY KEY REFERENCES records (key),
  host       TEXT    NOT NULL,
  generation INTEGER NOT NULL,
  checksum   INTEGER NOT NULL
) STRICT;

CREATE TABLE lineage (
  record        INTEGER NOT NULL REFERENCES records (key),
  row           INTEGER NOT NULL, -- from 1
  session       TEXT    NOT NULL,
  agent_session TEXT,
  began_at      INTEGER NOT NULL,
  replaced_at   INTEGER,
  reason        TEXT    NOT NULL,
  checksum      INTEGER NOT NULL,
  PRIMARY KEY (record, row)
) STRICT, WITHOUT ROWID;

-- One B-tree holds the events of each record side by side and in order, without a second index.
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

-- Bodies over 64 KiB, each kept once.
CREATE TABLE blobs (
  hash  BLOB NOT NULL UNIQUE, -- SHA-256 of the bytes
  bytes BLOB NOT NULL
) STRICT;

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
  prompt_blob   BLOB,             -- or the hash of one over 64 KiB
  PRIMARY KEY (record, turn),
  UNIQUE (record, request)
) STRICT;

CREATE INDEX turns_open ON turns (record, turn) WHERE state IN ('queued', 'dispatched');
