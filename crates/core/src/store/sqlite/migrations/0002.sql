-- Format 2: what a shell finds a record by, the last process of its agent, that a record was deleted, what a turn used,
-- was allowed and wished for, and which files of another program have been taken over. Never edited once released.
-- The columns that are added here belong to the checksum of their row up to the last one that is not null, so a row
-- of format 1 keeps the one it has.

ALTER TABLE records ADD COLUMN scope_agent TEXT;      -- null for a record that no shell finds
ALTER TABLE records ADD COLUMN scope_name TEXT;       -- empty for the session without a name
ALTER TABLE records ADD COLUMN run_pid INTEGER;       -- null if no process of its agent is known of
ALTER TABLE records ADD COLUMN run_started INTEGER;   -- clock ticks since the boot
ALTER TABLE records ADD COLUMN run_boot TEXT;
ALTER TABLE records ADD COLUMN run_since INTEGER;
ALTER TABLE records ADD COLUMN run_ended_at INTEGER;  -- null while no end was seen
ALTER TABLE records ADD COLUMN run_ended_how TEXT;
ALTER TABLE records ADD COLUMN deleted_at INTEGER;    -- null for a record that is open or closed

-- Of the open records of a directory, one has a scope. An index takes no two nulls for equal: hence the empty name.
CREATE UNIQUE INDEX records_in_scope ON records (scope_agent, real_cwd, scope_name)
  WHERE scope_agent IS NOT NULL AND closed_at IS NULL AND deleted_at IS NULL;
CREATE INDEX records_once_in_scope ON records (scope_agent, real_cwd, scope_name, closed_at)
  WHERE scope_agent IS NOT NULL AND closed_at IS NOT NULL;
-- Deleted records are in no list, and whoever reads one does not pass them by.
DROP INDEX records_by_update;
CREATE INDEX records_by_update ON records (updated_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX records_running ON records (run_pid) WHERE run_pid IS NOT NULL AND run_ended_at IS NULL;

ALTER TABLE turns ADD COLUMN usage TEXT;              -- a JSON object, as the agent told it
ALTER TABLE turns ADD COLUMN approved INTEGER;        -- null for none
ALTER TABLE turns ADD COLUMN rejected INTEGER;        -- null for none
ALTER TABLE turns ADD COLUMN fallback TEXT;           -- null for a fresh session, which is what nobody has to wish for
ALTER TABLE turns ADD COLUMN carry_history INTEGER;   -- 1, or null

-- The files of npm acpx that were looked at, as they were then.
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
