-- The order of asks, turns and tasks is that of the log: ids are made of times, and the clocks of two nodes differ.
-- cursor: where it was opened, queued or started. Rows from before this version get numbers up to 0, in the order of their ids.

ALTER TABLE asks ADD COLUMN cursor INTEGER NOT NULL DEFAULT 0;
UPDATE asks SET cursor = ranked.place
    FROM (SELECT id, row_number() OVER (ORDER BY id) - count(*) OVER () AS place FROM asks) AS ranked
    WHERE ranked.id = asks.id;
DROP INDEX asks_by_root;
DROP INDEX asks_waiting;
CREATE INDEX asks_in_order ON asks (cursor);
CREATE INDEX asks_by_root ON asks (root_id, cursor);
CREATE INDEX asks_waiting ON asks (cursor) WHERE status = 'open';

ALTER TABLE turns ADD COLUMN cursor INTEGER NOT NULL DEFAULT 0;
UPDATE turns SET cursor = ranked.place
    FROM (SELECT id, row_number() OVER (ORDER BY id) - count(*) OVER () AS place FROM turns) AS ranked
    WHERE ranked.id = turns.id;
DROP INDEX turns_by_session;
CREATE INDEX turns_by_session ON turns (session_id, cursor);

ALTER TABLE tasks ADD COLUMN cursor INTEGER NOT NULL DEFAULT 0;
UPDATE tasks SET cursor = ranked.place
    FROM (
        SELECT id, row_number() OVER (ORDER BY json_extract(task_json, '$.started_at'), id) - count(*) OVER () AS place
        FROM tasks
    ) AS ranked
    WHERE ranked.id = tasks.id;
CREATE INDEX tasks_in_order ON tasks (cursor);

-- Pids and the paths of output files mean something on one node only. There is one today.
ALTER TABLE tasks ADD COLUMN node TEXT NOT NULL DEFAULT '1';
ALTER TABLE processes RENAME TO processes_of_one_node;
CREATE TABLE processes (
    node               TEXT NOT NULL,
    pid                INTEGER NOT NULL,
    start_time         TEXT NOT NULL,
    session_id         TEXT NOT NULL,
    call_id            TEXT NOT NULL,
    PRIMARY KEY (node, pid, start_time)
) WITHOUT ROWID;
INSERT INTO processes SELECT '1', pid, start_time, session_id, call_id FROM processes_of_one_node;
DROP TABLE processes_of_one_node;
CREATE INDEX processes_by_session ON processes (session_id);
