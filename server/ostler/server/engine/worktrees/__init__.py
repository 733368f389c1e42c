"""The worktrees that sessions enter and leave, and that agents are given."""
