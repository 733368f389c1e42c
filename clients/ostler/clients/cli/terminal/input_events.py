"""What a person at a keyboard has done, as the chat is told of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """Somebody pressed Enter, or a key that is an answer by itself."""

    text: str
    shown: str | None = None
    """The same as it stood in the line, where long pastes were only named."""


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """Ctrl-D, or the end of the input."""


@dataclass(frozen=True, slots=True)
class Escape:
    """Esc, and nothing after it."""


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A key that stands for a slash command."""

    command: str


@dataclass(frozen=True, slots=True)
class StrayKeys:
    """Keys that mean nothing where only single keys are wanted: they are not taken into the line."""

    text: str


InputEvent = Line | EndOfInput | Escape | Shortcut | StrayKeys
