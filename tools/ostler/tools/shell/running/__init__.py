"""How a command runs: its program, its profile, its launch, and the copier of its output."""
