"""What a session sends before its conversation."""

from ostler.protocol.wire import Shape


class PromptPart(Shape):
    """A part of it."""

    name: str
    """`rules`, `not_loaded`, `role`, `place`, `instructions`, `person`, `memory`, or `tool:NAME`."""
    tokens: int
    """An estimate of what it takes of the window."""
    text: str
    """As the model is sent it; a tool as JSON."""


class SessionPrompt(Shape):
    """The system prompt and the tools of a session."""

    sent: bool
    """The system prompt was sent, and stays as it is; else it is what would be sent now."""
    tokens: int
    """Of all parts together: an estimate."""
    parts: list[PromptPart]
    """The parts in their order: the system prompt, then the tools."""
