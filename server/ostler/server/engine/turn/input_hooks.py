"""Input that arrives during a turn: hooks hear of it before it joins, and may keep it from the model."""

from dataclasses import dataclass, field

from ostler.server.engine.journal.journal import Said
from ostler.server.engine.session.hooks import Hooking
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.turn.environment_updates import without_opening
from ostler.server.engine.turn.setup import words
from ostler.server.engine.turn.stop import Stop
from ostler.storage.repositories.steers import Steer


@dataclass(slots=True)
class Steering:
    hooking: Hooking
    waiting: list[Steer]
    """What has not joined yet, in its order. It is stored until it has: a crash loses none of it."""
    stop: Stop = field(default_factory=Stop)
    """Ends the hooks, with the turn: what they have not let pass is input of the next one, which they hear then."""
    _heard: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """What hooks have to say to the model about each that they have let pass."""

    async def hear(self) -> str | None:
        """Let hooks hear all that waits; returns why the turn is to end, where one of them wants that."""
        with self.stop.obeyed():
            while (steer := self._unheard()) is not None:
                outcome = await self.hooking.moment("UserPromptSubmit", prompt=words(steer.blocks))
                why = outcome.block or outcome.stop
                if why is None:
                    self._heard[steer.id] = outcome.context
                    continue
                self.waiting.remove(steer)
                self.hooking.session.journal.steer_taken_back(steer, why)
                if outcome.stop:
                    return outcome.stop
        return None

    def _unheard(self) -> Steer | None:
        return next((steer for steer in self.waiting if steer.id not in self._heard), None)

    def take(self) -> tuple[list[Steer], list[str]]:
        """All that waits, which joins now, and what hooks say about it."""
        taken = self.waiting[:]
        self.waiting.clear()
        return taken, [words for steer in taken for words in self._heard.pop(steer.id)]


async def heard(session: LiveSession, hooking: Hooking, task: str) -> tuple[tuple[str, ...], str | None]:
    """What hooks have to say to the model about the input, and why it does not get it, if that is so."""
    context: tuple[str, ...] = ()
    if not session.began:
        session.began = True
        source = "resume" if len(session.history) > 1 else "startup"
        begun = await hooking.moment("SessionStart", source=source)
        context = begun.context
        if begun.stop:
            return (), begun.stop
    outcome = await hooking.moment("UserPromptSubmit", prompt=task)
    return (*context, *outcome.context), outcome.block or outcome.stop


def take_back(session: LiveSession, opening: Said) -> None:
    """The model is never sent it."""
    session.history.take_back(opening.encoded)
    session.state = without_opening(session.state)
    session.journal.take_back(opening.message, session.tasks.news.bring_back(session.record.id), session.state)
