-- What files held before a turn changed them first, so that what a session did can be shown and taken back.

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
CREATE UNIQUE INDEX file_history_by_turn ON file_history (session_id, turn_id, path);
CREATE INDEX file_history_by_digest ON file_history (digest) WHERE digest IS NOT NULL;

-- Each content once, whoever keeps it; it goes when the last row that names it goes.
CREATE TABLE file_contents (
    digest             TEXT PRIMARY KEY,      -- SHA-256
    packed_bytes       INTEGER NOT NULL,
    packed             BLOB NOT NULL          -- zlib
);
