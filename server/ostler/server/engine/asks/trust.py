"""The ask whether the settings of a folder are trusted: put once, and again when they have changed."""

from datetime import UTC, datetime, timedelta

from ostler.protocol import times
from ostler.protocol.events import Notice
from ostler.protocol.ids import TurnId, new_ask_id
from ostler.protocol.shapes import Ask
from ostler.server.engine.asks.asks import TurnAsks
from ostler.server.engine.session.live import LiveSession
from ostler.server.settings import Settings

CHOICES = ["trust", "restrict"]


def is_trust_settled(session: LiveSession) -> bool:
    """Whether the folder is trusted, or was asked about already."""
    if session.parent is not None:
        return True  # its folder is that of the session at the top, whose turns ask
    return session.trusted or session.asked_trust == session.settings.project_effects.digest


async def settle_trust(session: LiveSession, asks: TurnAsks, turn_id: TurnId, expire_seconds: float | None) -> bool:
    """Ask whether the folder is trusted, where its settings would act; until somebody says yes they have no effect.

    True where somebody was asked: the folder may be trusted now.
    """
    if is_trust_settled(session):
        return False
    session.asked_trust = session.settings.project_effects.digest
    if session.permission.on_ask == "deny" or session.mode == "dontAsk":
        words = "What this folder brings does nothing, since nobody can be asked to trust it: "
        session.journal.add_notice(
            turn_id, Notice(level="warning", text=words + "; ".join(_list_project_acts(session.settings)))
        )
        return False
    waiting = next((ask for ask in asks.open if ask.kind == "trust"), None)
    async with session.lend_slot():
        if waiting is not None and waiting.folder == session.settings.folder:
            await asks.wait(waiting)
        else:
            await asks.ask(_build_trust_ask(session, turn_id, expire_seconds))
    return True


def describe_project_acts(settings: Settings) -> list[dict[str, str]]:
    """What the settings of the folder would do, as the ask shows it."""
    return [{"text": line} for line in _list_project_acts(settings)]


def _list_project_acts(settings: Settings) -> list[str]:
    return list(settings.project_effects.lines)


def _build_trust_ask(session: LiveSession, turn_id: TurnId, expire_seconds: float | None) -> Ask:
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
        what=describe_project_acts(session.settings),
        bound_to=session.settings.project_effects.digest,
        opened_at=times.format_time(now),
        expires_at=times.format_time(now + timedelta(seconds=expire_seconds)) if expire_seconds else None,
    )
