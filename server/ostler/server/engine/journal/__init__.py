"""The journal of a session: it writes turns, messages, calls and asks as rows and events."""
