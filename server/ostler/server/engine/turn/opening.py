"""The beginning of a turn: hooks hear of the input before the model does, and may keep it from it."""

from ostler.server.engine.journal.journal import Said
from ostler.server.engine.session.hooks import Hooking
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.turn.environment_updates import without_opening


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
