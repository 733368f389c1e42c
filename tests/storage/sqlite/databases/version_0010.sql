-- A database as version 10 left it.
BEGIN TRANSACTION;
CREATE TABLE asks (
    id                 TEXT PRIMARY KEY,
    session_id         TEXT NOT NULL,
    root_id            TEXT NOT NULL,
    status             TEXT NOT NULL,
    ask_json           TEXT NOT NULL
, call_id TEXT, cursor INTEGER NOT NULL DEFAULT 0);
CREATE TABLE calls (
    id                 TEXT PRIMARY KEY,
    session_id         TEXT NOT NULL,
    turn_id            TEXT,
    status             TEXT NOT NULL,
    call_json          TEXT NOT NULL
, queued_json TEXT, unusable_json TEXT, messages_json TEXT);
CREATE TABLE cleared_results (
    session_id         TEXT NOT NULL,
    tool_use_id        TEXT NOT NULL,
    position           INTEGER NOT NULL,
    text               TEXT NOT NULL,
    PRIMARY KEY (session_id, tool_use_id)
) WITHOUT ROWID;
CREATE TABLE clients (
    id                 TEXT PRIMARY KEY,
    name               TEXT NOT NULL,
    version            TEXT NOT NULL,
    kind               TEXT NOT NULL,
    capabilities_json  TEXT NOT NULL,
    first_seen         TEXT NOT NULL,
    last_seen          TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE draft_blocks (
    session_id         TEXT NOT NULL,
    place              INTEGER NOT NULL,
    block_json         TEXT NOT NULL,
    PRIMARY KEY (session_id, place)
);
CREATE TABLE drafts (
    session_id         TEXT PRIMARY KEY,
    message_json       TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE events (
    cursor             INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id         TEXT,
    root_id            TEXT,
    turn_id            TEXT,
    time               TEXT NOT NULL,
    type               TEXT NOT NULL,
    reference          TEXT,             -- the message, call, ask or turn that it speaks of
    data_json          TEXT              -- null where the reference is enough
);
INSERT INTO "events" VALUES(7,'s_0mwiqfmif5xk51uf8mzm','s_0mwiqfmif5xk51uf8mzm',NULL,'2026-11-16T03:57:15.069Z','notice',NULL,'{"level":"info","text":"hello"}');
CREATE TABLE file_contents (
    digest             TEXT PRIMARY KEY,      -- SHA-256
    packed_bytes       INTEGER NOT NULL,
    packed             BLOB NOT NULL          -- zlib
);
INSERT INTO "file_contents" VALUES('abc',10,X'78014BE4020000CE006C');
CREATE TABLE file_history (
    id                 INTEGER PRIMARY KEY,   -- the order in which they were kept, over a session and its agents
    session_id         TEXT NOT NULL,
    turn_id            TEXT NOT NULL,
    path               TEXT NOT NULL,         -- the real one
    mode               INTEGER,               -- null: there was no file
    size               INTEGER NOT NULL,
    digest             TEXT,                  -- of the content; null where there was no file, or its content is not kept
    left_out           TEXT                   -- why the content is not kept: too_large, no_room
);
INSERT INTO "file_history" VALUES(1,'s_0mwiqfmif5xk51uf8mzm','t_1','/kept',33188,2,'abc',NULL);
CREATE TABLE file_reads (
    session_id         TEXT NOT NULL,
    path               TEXT NOT NULL,
    read_json          TEXT NOT NULL,
    PRIMARY KEY (session_id, path)
) WITHOUT ROWID;
CREATE TABLE idempotency_keys (
    method             TEXT NOT NULL,
    key                TEXT NOT NULL,
    params_digest      TEXT NOT NULL,
    answer_json        TEXT NOT NULL,
    session_id         TEXT,
    created_at         TEXT NOT NULL,
    PRIMARY KEY (method, key)
) WITHOUT ROWID;
CREATE TABLE messages (
    session_id         TEXT NOT NULL,
    position           INTEGER NOT NULL,
    id                 TEXT NOT NULL,
    turn_id            TEXT,
    role               TEXT NOT NULL,
    model              TEXT,
    stop_reason        TEXT,
    source_call_id     TEXT,
    created_at         TEXT NOT NULL,
    content_json       TEXT NOT NULL, kept_from INTEGER,
    PRIMARY KEY (session_id, position)
);
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "meta" VALUES('database_id','0123456789abcdef0123456789abcdef');
CREATE TABLE processes (
    node               TEXT NOT NULL,
    pid                INTEGER NOT NULL,
    start_time         TEXT NOT NULL,
    session_id         TEXT NOT NULL,
    call_id            TEXT NOT NULL,
    PRIMARY KEY (node, pid, start_time)
) WITHOUT ROWID;
CREATE TABLE result_owners (
    session_id         TEXT NOT NULL,
    result_id          TEXT NOT NULL,
    PRIMARY KEY (session_id, result_id)
) WITHOUT ROWID;
CREATE TABLE result_pieces (
    result_id          TEXT NOT NULL,
    first_char         INTEGER NOT NULL,
    chars              INTEGER NOT NULL,
    packed             BLOB NOT NULL,    -- zlib of UTF-8
    PRIMARY KEY (result_id, first_char)
);
CREATE TABLE results (
    id                 TEXT PRIMARY KEY,
    tool               TEXT NOT NULL,
    media_type         TEXT NOT NULL,
    total_chars        INTEGER NOT NULL,
    total_bytes        INTEGER NOT NULL,
    created_at         TEXT NOT NULL
, file_name TEXT
) WITHOUT ROWID;
CREATE TABLE session_states (
    session_id         TEXT PRIMARY KEY,
    state_json         TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE sessions (
    id                 TEXT PRIMARY KEY,
    parent_id          TEXT,
    root_id            TEXT NOT NULL,
    cwd                TEXT NOT NULL,
    title              TEXT,
    model              TEXT NOT NULL,
    provider           TEXT NOT NULL,
    mode               TEXT NOT NULL,
    status             TEXT NOT NULL,
    on_ask             TEXT NOT NULL,
    trusted            INTEGER NOT NULL,
    created_at         TEXT NOT NULL,
    updated_at         TEXT NOT NULL,
    search_text        TEXT NOT NULL,   -- title and folder, case-folded, for session/list text=…
    directories_json   TEXT NOT NULL,
    metadata_json      TEXT NOT NULL,
    options_json       TEXT NOT NULL    -- what was asked for at creation and only the engine reads
) WITHOUT ROWID;
INSERT INTO "sessions" VALUES('s_0mwiqfmif5xk51uf8mzm',NULL,'s_0mwiqfmif5xk51uf8mzm','/home/a/proj','kept from an earlier version','rehearsal','rehearsal','default','idle','ask',0,'2026-11-16T03:57:15.063Z','2026-11-16T03:57:15.063Z','kept from an earlier version
/home/a/proj','[]','{}','{}');
CREATE TABLE steers (
    id                 INTEGER PRIMARY KEY,
    session_id         TEXT NOT NULL,
    turn_id            TEXT NOT NULL,
    input_json         TEXT NOT NULL
);
CREATE TABLE tasks (
    id                 TEXT PRIMARY KEY,
    session_id         TEXT NOT NULL,
    status             TEXT NOT NULL,
    task_json          TEXT NOT NULL
, turn_id TEXT, pid INTEGER, start_time TEXT, output TEXT, read_bytes INTEGER NOT NULL DEFAULT 0, until TEXT, ends_at TEXT, heard_bytes INTEGER NOT NULL DEFAULT 0, told INTEGER NOT NULL DEFAULT 0, cursor INTEGER NOT NULL DEFAULT 0, node TEXT NOT NULL DEFAULT '1') WITHOUT ROWID;
INSERT INTO "tasks" VALUES('b7k2m1q9z','s_0mwiqfmif5xk51uf8mzm','running','{"id": "b7k2m1q9z", "type": "local_bash", "status": "running", "description": "the server", "session_id": "s_0mwiqfmif5xk51uf8mzm", "command": "npm run dev", "started_at": "2026-11-16T14:00:00.000Z"}','t_1',4194000,'1','/gone/call-x.out',0,NULL,NULL,0,0,0,'1');
CREATE TABLE todo_lists (
    session_id TEXT PRIMARY KEY,
    next_number INTEGER NOT NULL,   -- the id of the next item
    todos_json NOT NULL
) WITHOUT ROWID;
CREATE TABLE trusted_folders (
    folder             TEXT PRIMARY KEY,
    digest             TEXT NOT NULL,    -- of what was trusted: when that changes, it is asked again
    granted_at         TEXT NOT NULL,
    granted_by         TEXT
) WITHOUT ROWID;
CREATE TABLE turns (
    id                 TEXT PRIMARY KEY,
    session_id         TEXT NOT NULL,
    status             TEXT NOT NULL,
    turn_json          TEXT NOT NULL,
    input_json         TEXT NOT NULL
, unheard_json TEXT, cursor INTEGER NOT NULL DEFAULT 0);
CREATE TABLE usage (
    id                 INTEGER PRIMARY KEY,
    session_id         TEXT NOT NULL,
    turn_id            TEXT,
    model              TEXT NOT NULL,
    input_tokens       INTEGER NOT NULL,
    output_tokens      INTEGER NOT NULL,
    cache_read_tokens  INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    cost_usd           TEXT,             -- null: the price is unknown
    created_at         TEXT NOT NULL
);
CREATE INDEX sessions_by_activity ON sessions (updated_at DESC, id DESC);
CREATE INDEX sessions_by_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX turns_unfinished ON turns (session_id) WHERE status != 'ended';
CREATE UNIQUE INDEX messages_by_id ON messages (id);
CREATE INDEX calls_by_session ON calls (session_id);
CREATE INDEX calls_unfinished ON calls (session_id) WHERE status != 'completed';
CREATE INDEX asks_open ON asks (root_id) WHERE status = 'open';
CREATE INDEX events_by_root ON events (root_id, cursor);
CREATE INDEX result_owners_by_result ON result_owners (result_id);
CREATE INDEX tasks_by_session ON tasks (session_id);
CREATE INDEX tasks_unfinished ON tasks (status) WHERE status IN ('pending', 'running');
CREATE INDEX usage_by_session ON usage (session_id);
CREATE INDEX idempotency_by_age ON idempotency_keys (created_at);
CREATE INDEX idempotency_by_session ON idempotency_keys (session_id);
CREATE INDEX clients_by_age ON clients (last_seen);
CREATE INDEX steers_by_session ON steers (session_id);
CREATE INDEX asks_by_call ON asks (call_id) WHERE call_id IS NOT NULL;
CREATE UNIQUE INDEX file_history_by_turn ON file_history (session_id, turn_id, path);
CREATE INDEX file_history_by_digest ON file_history (digest) WHERE digest IS NOT NULL;
CREATE INDEX tasks_untold ON tasks (session_id) WHERE told = 0 AND status IN ('completed', 'failed', 'killed');
CREATE INDEX asks_in_order ON asks (cursor);
CREATE INDEX asks_by_root ON asks (root_id, cursor);
CREATE INDEX asks_waiting ON asks (cursor) WHERE status = 'open';
CREATE INDEX turns_by_session ON turns (session_id, cursor);
CREATE INDEX tasks_in_order ON tasks (cursor);
CREATE INDEX processes_by_session ON processes (session_id);
CREATE INDEX messages_summaries ON messages (session_id, position) WHERE kept_from IS NOT NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',7);
COMMIT;
PRAGMA user_version = 10;
