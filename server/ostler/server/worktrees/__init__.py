"""Git worktrees of a repository, below its `.ostler/worktrees`: made, looked at, kept or removed by git itself."""
