"""Handlers about what the model knows: its window, what that costs, and what is kept for later."""
