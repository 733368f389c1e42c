"""What a classifier is asked, and what it answers."""

from dataclasses import dataclass
from typing import Literal, Protocol

Behavior = Literal["allow", "deny", "ask"]


@dataclass(frozen=True, slots=True)
class Question:
    """One call, as a classifier sees it. What tools, pages and files said is no part of it."""

    tool: str
    text: str
    """What the call would do: `classifier_text` of the tool."""
    folder: str
    roots: tuple[str, ...]
    last_input: str
    """What the person last asked the agent for."""
    read_only: bool
    destructive: bool
    granted: tuple[str, ...] = ()
    """What a person approved with a plan, in words. Where it is given, `allow` means that the call is one of these."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a classifier thinks of a call, and what it took to find out."""

    behavior: Behavior
    reason: str
    model: str
    cached: bool = False
    duration_ms: int = 0


class Classifier(Protocol):
    """Decides in mode `auto`."""

    async def classify(self, question: Question) -> Opinion:
        """Never raises: a classifier that is unsure, or cannot be reached, says `ask` and why."""
        ...
