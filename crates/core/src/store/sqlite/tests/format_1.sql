-- A store of format 1 as the last program of that format wrote it, dumped. Never edited: what this file says
-- must stay readable.
PRAGMA foreign_keys = OFF; -- the tables come by name, each with its rows
PRAGMA page_size = 4096;
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA application_id = 1633906808;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
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
INSERT INTO "events" VALUES(1099511627777,2001,1,1,1,2,3,852323114,'{"id":1}',NULL);
INSERT INTO "events" VALUES(1099511627778,2002,1,1,1,1,1,1991218886,'{"text":"it''s"}',NULL);
INSERT INTO "events" VALUES(1099511627779,2003,1,1,1,3,5,1971747514,'{"fact":"turn_ended"}',NULL);
CREATE TABLE leases (
  record     INTEGER PRIMARY KEY REFERENCES records (key),
  host       TEXT    NOT NULL,
  generation INTEGER NOT NULL,
  checksum   INTEGER NOT NULL
) STRICT;
INSERT INTO "leases" VALUES(1,'host',1,817442130);
INSERT INTO "leases" VALUES(2,'host',1,1485209804);
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
INSERT INTO "lineage" VALUES(1,1,'s1','inner',1000,1500,'created',4007392650);
INSERT INTO "lineage" VALUES(1,2,'s2',NULL,1500,NULL,'agent-lost',672761302);
INSERT INTO "lineage" VALUES(2,1,'s3',NULL,800,NULL,'created',1609079260);
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
INSERT INTO "records" VALUES(1,'named','claude','claude-agent-acp','["--quiet","ein \"Wort\""]',120000,'/home/me//project/','/srv/project','["files","web"]','Zwölf Boxkämpfer',NULL,1000,2801101781,2003,3,5,1,2,2,1320361755);
INSERT INTO "records" VALUES(2,'plain',NULL,'agent','[]',1500,'/work','/work','[]',NULL,900,800,3959949162,900,NULL,NULL,0,1,0,1461387828);
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
INSERT INTO "turns" VALUES(1,1,'q1','ended','approve-all',1001,NULL,1100,'end_turn',NULL,NULL,NULL,4109330653,'[{"type":"text","text":"prompt 1"}]',NULL);
INSERT INTO "turns" VALUES(1,2,'q2','ended','approve-reads',1002,NULL,1200,NULL,'AGENT_REFUSED','no','{"code":-32603}',2149948500,'[{"type":"text","text":"prompt 2"}]',NULL);
INSERT INTO "turns" VALUES(1,3,'q3','interrupted','deny-all',1003,NULL,1300,NULL,NULL,NULL,NULL,3370392838,'[{"type":"text","text":"prompt 3"}]',NULL);
INSERT INTO "turns" VALUES(1,4,'q4','dispatched','deny-all',1004,1400,NULL,NULL,NULL,NULL,NULL,3312536142,'[{"type":"text","text":"prompt 4"}]',NULL);
INSERT INTO "turns" VALUES(1,5,'q5','queued','approve-reads',1005,NULL,NULL,NULL,NULL,NULL,NULL,1292157461,'[{"type":"text","text":"prompt 5"}]',NULL);
CREATE INDEX records_by_update ON records (updated_at DESC, id DESC);
CREATE INDEX turns_open ON turns (record, turn) WHERE state IN ('queued', 'dispatched');
COMMIT;
