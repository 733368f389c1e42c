"""Skills and commands that files declare."""
