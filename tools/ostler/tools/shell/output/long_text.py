"""The interface to a result's full text, where the output holds only a part: read in pieces, once, and closed."""

from collections.abc import Iterator
from typing import Protocol

from ostler.tools.tool import ToolOutput


class LongText(Protocol):
    """The full text of a result, wherever it is stored."""

    def pieces(self) -> Iterator[str]:
        """The text for the model, in pieces of which none has to be kept. Blocks; raises OSError."""
        ...

    def close(self) -> None:
        """Releases the file or other place where it is stored. Blocks."""
        ...


class LongOutput(ToolOutput):
    """An output that may hold only a part of its text, of a tool with a limit for its results."""

    def open_long_text(self) -> LongText | None:
        """The full text; null where the output itself holds all."""
        return None
