"""`ostler chat` and `attach`: the session, its asks, slash commands."""
