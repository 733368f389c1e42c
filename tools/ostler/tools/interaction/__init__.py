"""The tools that answer people and callers: StructuredOutput."""
