"""The tools that run commands: Bash and PowerShell, what they may run, and what they give back."""
