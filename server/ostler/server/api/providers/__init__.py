"""The handlers of what concerns providers: keys to them, and their models."""
