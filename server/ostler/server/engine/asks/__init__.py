"""Asks: permission for a call, and trust in a folder."""
