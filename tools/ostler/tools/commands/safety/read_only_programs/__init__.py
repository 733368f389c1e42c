"""Read-only programs with a language or a command of their own in their arguments: awk, find, xargs, git, tar."""
