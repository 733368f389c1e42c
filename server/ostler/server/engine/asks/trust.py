"""Whether what a project brings may act: asked once, and again when it has changed."""

from datetime import UTC, datetime, timedelta

from ostler.protocol import times
from ostler.protocol.events import Notice
from ostler.protocol.ids import TurnId, new_ask_id
from ostler.protocol.shapes import Ask
from ostler.server.engine.asks.asks import AskDesk
from ostler.server.engine.session.live import LiveSession
from ostler.server.settings import Settings

CHOICES = ["trust", "restrict"]


def trust_is_settled(session: LiveSession) -> bool:
    """Nobody has to be asked about the folder any more."""
    return session.trusted or session.asked_trust == session.settings.project_acts.digest


async def settle_trust(session: LiveSession, asks: AskDesk, turn_id: TurnId, expire_seconds: float | None) -> bool:
    """Ask the people, where there is something that would act; nobody to ask, and a no, leave it without effect.

    True where somebody was asked: what the folder brings may count from now on.
    """
    if trust_is_settled(session):
        return False
    session.asked_trust = session.settings.project_acts.digest
    if session.permission.on_ask == "deny" or session.mode == "dontAsk":
        words = "What this folder brings does nothing, since nobody can be asked to trust it: "
        session.journal.notice(turn_id, Notice(level="warning", text=words + "; ".join(_lines(session.settings))))
        return False
    waiting = next((ask for ask in asks.open if ask.kind == "trust"), None)
    if waiting is not None and waiting.folder == session.settings.folder:
        await asks.wait(waiting)
    else:
        await asks.ask(_ask(session, turn_id, expire_seconds))
    return True


def shown(settings: Settings) -> list[dict[str, str]]:
    """What the person is shown, who is asked."""
    return [{"text": line} for line in _lines(settings)]


def _lines(settings: Settings) -> list[str]:
    return list(settings.project_acts.lines)


def _ask(session: LiveSession, turn_id: TurnId, expire_seconds: float | None) -> Ask:
    now = datetime.now(UTC)
    folder = session.settings.folder
    return Ask(
        id=new_ask_id(),
        session_id=session.record.id,
        root_id=session.record.root_id,
        turn_id=turn_id,
        kind="trust",
        status="open",
        message=f"Trust what {folder} brings?",
        reason="It would act on this machine with your powers.",
        choices=CHOICES,
        folder=folder,
        what=shown(session.settings),
        opened_at=times.at(now),
        expires_at=times.at(now + timedelta(seconds=expire_seconds)) if expire_seconds else None,
    )
