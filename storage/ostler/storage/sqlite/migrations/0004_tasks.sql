-- What a task needs to be found again by a daemon that starts later, and what the model knows of it.

ALTER TABLE tasks ADD COLUMN turn_id TEXT;                            -- in which it was started
ALTER TABLE tasks ADD COLUMN pid INTEGER;
ALTER TABLE tasks ADD COLUMN start_time TEXT;                         -- with the pid it names a process for ever
ALTER TABLE tasks ADD COLUMN output TEXT;                             -- the file that it prints to
ALTER TABLE tasks ADD COLUMN read_bytes INTEGER NOT NULL DEFAULT 0;   -- how much of that the model has seen
ALTER TABLE tasks ADD COLUMN until TEXT;                              -- of a monitor: the pattern that ends it
ALTER TABLE tasks ADD COLUMN ends_at TEXT;                            -- of a monitor: when it ends without a match
ALTER TABLE tasks ADD COLUMN heard_bytes INTEGER NOT NULL DEFAULT 0;  -- of a monitor: the lines up to here were told
ALTER TABLE tasks ADD COLUMN told INTEGER NOT NULL DEFAULT 0;         -- the model knows of its end
CREATE INDEX tasks_untold ON tasks (session_id) WHERE told = 0 AND status IN ('completed', 'failed', 'killed');
