"""The event log and its subscribers."""
