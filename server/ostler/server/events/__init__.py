"""The event log and its subscribers: publishing, partial messages, frames and chunks for the wire."""
