"""Runs turns: session actors, the turn loop, the call executor, permissions, asks and background tasks."""
