"""Commands about what fills the window of a session's model, and what it costs."""
