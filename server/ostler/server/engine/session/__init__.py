"""A session in memory: its state, settings, hooks, history, file reads and usage."""
