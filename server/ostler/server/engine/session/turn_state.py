"""A turn as it stands in memory; what is written to the disk is always a copy of this."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ostler.protocol.shapes import Denial, Turn

MAX_DENIALS: Final = 100


@dataclass(slots=True)
class TurnState:
    turn: Turn
    halt: Callable[..., None]
    """Ends the turn early, for the reason given, with what its calls are told, and with an error where there is one."""
    task: str = ""
    """What the person asked for, in their own words."""

    def change(self, **changes: Any) -> Turn:
        self.turn = self.turn.changed(**changes)
        return self.turn

    def deny(self, denial: Denial) -> None:
        # Bounded: a turn is stored and told again and again, and nobody reads the hundredth.
        if len(self.turn.denials) < MAX_DENIALS:
            self.change(denials=[*self.turn.denials, denial])
