-- Format 13: notifications that wait to be delivered, and how each sink is doing. Never edited once released.

-- One row for each notification and sink, until it is delivered or given up.
CREATE TABLE notifications (
  id              TEXT    NOT NULL, -- the event's id, the same for all sinks
  sink            TEXT    NOT NULL, -- the sink's name in the configuration
  record          INTEGER NOT NULL REFERENCES records (key),
  at              INTEGER NOT NULL, -- when it happened
  event           TEXT    NOT NULL, -- what happened, a JSON object
  attempts        INTEGER NOT NULL, -- how many failed
  next_attempt_at INTEGER NOT NULL,
  checksum        INTEGER NOT NULL,
  PRIMARY KEY (id, sink)
) STRICT, WITHOUT ROWID;

CREATE INDEX notifications_due ON notifications (sink, next_attempt_at, at, id);
CREATE INDEX notifications_of_record ON notifications (record);

-- One row for each sink that has delivered, lost or failed to deliver a notification.
CREATE TABLE notification_sinks (
  sink         TEXT    NOT NULL PRIMARY KEY,
  delivered    INTEGER NOT NULL,
  given_up     INTEGER NOT NULL, -- not delivered within a day, or never deliverable
  dropped      INTEGER NOT NULL, -- displaced by newer ones while the queue was full
  delivered_at INTEGER,          -- the last time
  error        TEXT,             -- of the last attempt, if it failed
  error_at     INTEGER,
  checksum     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
