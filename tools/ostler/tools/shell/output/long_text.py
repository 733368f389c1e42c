"""A text that is longer than what an output holds of it: it is read in pieces, once, and let go of."""

from collections.abc import Iterator
from typing import Protocol

from ostler.tools.tool import ToolOutput


class LongText(Protocol):
    """All that a call gave, wherever that is."""

    def pieces(self) -> Iterator[str]:
        """As the model would read it, in pieces that none has to be kept. Blocks; raises OSError."""
        ...

    def close(self) -> None:
        """Let go of the place where it is. Blocks."""
        ...


class LongOutput(ToolOutput):
    """An output that may hold only a part of its text, of a tool with a limit for its results."""

    def long_text(self) -> LongText | None:
        """All of it; null where the output itself holds all."""
        return None
