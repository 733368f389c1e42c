"""What a command may do: the table of programs, wrappers, read-only and destructive commands, file access."""
