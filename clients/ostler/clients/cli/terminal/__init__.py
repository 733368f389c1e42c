"""The terminal: console, line editor, screen."""
