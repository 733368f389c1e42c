-- What is known of an unfinished turn, and cannot be seen in its messages and calls.

ALTER TABLE calls ADD COLUMN unusable_json TEXT;   -- why nothing can be run of it; its input was replaced by {}
ALTER TABLE turns ADD COLUMN unheard_json TEXT;    -- its input, while hooks have not let it pass; null: they have
