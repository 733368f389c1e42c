"""A plug-in with one tool."""
