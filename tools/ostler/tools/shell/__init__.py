"""The tools that run commands: Bash and PowerShell, their permission checks, and their results."""
