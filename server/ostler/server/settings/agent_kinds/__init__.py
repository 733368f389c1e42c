"""Kinds of agents that files declare."""
