"""What a session writes: turns, messages, calls and asks, as rows and events."""
