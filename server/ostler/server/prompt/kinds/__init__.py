"""The built-in kinds of agents; what each is told is the Markdown file with its name."""
