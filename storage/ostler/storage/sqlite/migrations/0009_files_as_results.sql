-- A file that was sent to the people is kept as a result is, byte for byte and under its name.

ALTER TABLE results ADD COLUMN file_name TEXT;   -- null: the text of a call
