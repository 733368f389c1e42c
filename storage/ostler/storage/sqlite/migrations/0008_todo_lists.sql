-- The work list of a session.

CREATE TABLE todo_lists (
    session_id TEXT PRIMARY KEY,
    next_number INTEGER NOT NULL,   -- the id of the next item
    todos_json NOT NULL
) WITHOUT ROWID;
