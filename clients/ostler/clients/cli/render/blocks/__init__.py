"""The blocks that a chat draws on a terminal: rows, themes, Markdown, calls, what is waited for."""
