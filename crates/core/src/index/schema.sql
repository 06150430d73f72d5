-- The full-text index. It is made from the store and from native transcripts, and can be deleted at any time.

-- One row for each record of the store (origin 0) and each native transcript (origin 1).
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    origin INTEGER NOT NULL,
    agent TEXT NOT NULL,
    session TEXT NOT NULL,
    path TEXT NOT NULL,
    -- The session that started this one as a sub-agent.
    parent TEXT,
    archived INTEGER NOT NULL,
    -- The stamp of the content that was read; of a record the last event is its size.
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    -- Where reading goes on if the file has grown; NULL if it has to be read again.
    position INTEGER,
    -- Of the bytes at the beginning and before the position: a file that was replaced has others.
    fingerprint INTEGER NOT NULL DEFAULT 0,
    -- The time of the last read that did not reach the end, in milliseconds, if the next one begins where it began.
    unfinished INTEGER NOT NULL DEFAULT 0,
    -- How many events were read.
    events INTEGER NOT NULL,
    -- The time of a record's last event.
    last_event_at INTEGER,
    directory TEXT,
    real_directory TEXT,
    title TEXT,
    first_prompt TEXT,
    created_at INTEGER,
    updated_at INTEGER,
    prompts INTEGER NOT NULL,
    tokens INTEGER,
    fork_of TEXT,
    -- How many lines could not be read, and whether the last one was incomplete.
    unread INTEGER NOT NULL,
    torn INTEGER NOT NULL DEFAULT 0,
    UNIQUE (origin, agent, session, path)
) STRICT;
CREATE INDEX sessions_by_id ON sessions (session);

-- The ACP sessions that a record has had. Their transcripts are not listed beside the record, and a search finds only
-- the messages in them that are later than the record.
CREATE TABLE lineage (
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    acp_session TEXT NOT NULL,
    PRIMARY KEY (acp_session, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX lineage_of_session ON lineage (session);

-- One row for each message, or for each part of a long one.
CREATE TABLE messages (
    -- In the order of the times of the messages.
    key INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    -- Its first event in the record or the transcript.
    event INTEGER NOT NULL,
    id TEXT,
    at INTEGER,
    -- 0 user, 1 agent, 2 thought, 3 tool.
    role INTEGER NOT NULL,
    tool TEXT,
    text TEXT NOT NULL,
    -- Parts of words that are searched for on their own: pairs of CJK characters, and words within identifiers.
    parts TEXT NOT NULL
) STRICT;
CREATE INDEX messages_of_session ON messages (session, event);

CREATE VIRTUAL TABLE texts USING fts5 (
    text, parts,
    content = 'messages', content_rowid = 'key',
    tokenize = 'unicode61 remove_diacritics 2'
);
-- The words of a deleted message leave the file at once.
INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER text_added AFTER INSERT ON messages BEGIN
    INSERT INTO texts (rowid, text, parts) VALUES (new.key, new.text, new.parts);
END;
CREATE TRIGGER text_removed AFTER DELETE ON messages BEGIN
    INSERT INTO texts (texts, rowid, text, parts) VALUES ('delete', old.key, old.text, old.parts);
END;

-- At most one row: the digest of the last scan whose transcripts were all read. An equal scan has nothing new.
CREATE TABLE complete_scan (digest INTEGER NOT NULL) STRICT;
-- At most one row: the last update has read every record that had changed.
CREATE TABLE complete_records (key INTEGER PRIMARY KEY) STRICT;
