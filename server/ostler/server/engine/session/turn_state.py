"""The state of a turn in memory; what is written to the disk is always a copy of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ostler.protocol.shapes import Denial, Turn

MAX_DENIALS: Final = 100


@dataclass(slots=True)
class TurnState:
    turn: Turn
    halt: Callable[..., None]
    """Ends the turn early; takes the reason, the text that its calls end with, and an error where there is one."""
    input_text: str = ""
    """The text of the turn's input, as the person wrote it."""

    def change(self, **changes: Any) -> Turn:
        self.turn = self.turn.changed(**changes)
        return self.turn

    def add_denial(self, denial: Denial) -> None:
        # Limited: a turn is stored and sent again and again, and nobody reads the hundredth.
        if len(self.turn.denials) < MAX_DENIALS:
            self.change(denials=[*self.turn.denials, denial])
