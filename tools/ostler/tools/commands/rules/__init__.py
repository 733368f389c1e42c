"""Permission rules about commands: matching, wildcards, suggestions."""
