"""What runs inside a command: wrappers, shells, interpreters and git, and what they are given to run."""
