"""The parser of shell commands."""
