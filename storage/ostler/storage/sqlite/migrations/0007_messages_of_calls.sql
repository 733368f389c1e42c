-- What a call gave besides its result, until all results of its message are there.

ALTER TABLE calls ADD COLUMN messages_json TEXT;   -- further user messages, each a list of blocks; null: none
