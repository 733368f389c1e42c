"""The tools that speak with people and callers: AskUserQuestion, StructuredOutput."""
