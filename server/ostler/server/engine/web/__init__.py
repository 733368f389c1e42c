"""What a session does for tools that read the web."""
