"""Asks to the people: permission and trust."""
