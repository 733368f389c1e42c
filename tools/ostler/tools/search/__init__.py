"""The tools that search: Glob and Grep, on ripgrep."""
