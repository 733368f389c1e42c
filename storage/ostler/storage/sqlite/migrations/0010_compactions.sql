-- What the model is sent in the place of a part of the history; the history itself stays as it was, for people.

-- Of a summary: the position of the first message that is sent as it is. Those before it are not sent any more.
ALTER TABLE messages ADD COLUMN kept_from INTEGER;
CREATE INDEX messages_summaries ON messages (session_id, position) WHERE kept_from IS NOT NULL;

-- Results that were cleared: each holds for the messages up to a position, which is that of the last one then.
CREATE TABLE cleared_results (
    session_id         TEXT NOT NULL,
    tool_use_id        TEXT NOT NULL,
    position           INTEGER NOT NULL,
    text               TEXT NOT NULL,
    PRIMARY KEY (session_id, tool_use_id)
) WITHOUT ROWID;
