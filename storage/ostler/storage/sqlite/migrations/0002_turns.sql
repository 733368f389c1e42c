-- What a turn needs to go on after a crash.

-- The message that is being streamed, and its complete blocks, as far as a call of it depends on them.
CREATE TABLE drafts (
    session_id         TEXT PRIMARY KEY,
    message_json       TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE draft_blocks (
    session_id         TEXT NOT NULL,
    place              INTEGER NOT NULL,
    block_json         TEXT NOT NULL,
    PRIMARY KEY (session_id, place)
);

-- Input that arrived during a turn and was not read by it yet.
CREATE TABLE steers (
    id                 INTEGER PRIMARY KEY,
    session_id         TEXT NOT NULL,
    turn_id            TEXT NOT NULL,
    input_json         TEXT NOT NULL
);
CREATE INDEX steers_by_session ON steers (session_id);

-- What is fixed at the first request (prompt, tools) and what the next one has to know.
CREATE TABLE session_states (
    session_id         TEXT PRIMARY KEY,
    state_json         TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE file_reads (
    session_id         TEXT NOT NULL,
    path               TEXT NOT NULL,
    read_json          TEXT NOT NULL,
    PRIMARY KEY (session_id, path)
) WITHOUT ROWID;

-- Processes of calls that run, so that a daemon that starts after a crash can end what its predecessor left.
CREATE TABLE processes (
    pid                INTEGER NOT NULL,
    start_time         TEXT NOT NULL,
    session_id         TEXT NOT NULL,
    call_id            TEXT NOT NULL,
    PRIMARY KEY (pid, start_time)
) WITHOUT ROWID;
CREATE INDEX processes_by_session ON processes (session_id);

-- What the model asked for, where a person or a hook changed it since.
ALTER TABLE calls ADD COLUMN queued_json TEXT;
ALTER TABLE asks ADD COLUMN call_id TEXT;
CREATE INDEX asks_by_call ON asks (call_id) WHERE call_id IS NOT NULL;
CREATE INDEX asks_waiting ON asks (id) WHERE status = 'open';
