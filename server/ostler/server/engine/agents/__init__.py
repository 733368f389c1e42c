"""Agents: child sessions that work for a call of their parent."""
