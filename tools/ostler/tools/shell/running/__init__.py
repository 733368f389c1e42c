"""Runs a command: its shell, the person's profile, its launch, and the copier of its output."""
