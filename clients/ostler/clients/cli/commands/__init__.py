"""The subcommands of `ostler`, one module each."""
