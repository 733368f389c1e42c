"""What the menu below the line offers: slash commands, sessions."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import anyio

from ostler.clients.cli.terminal.completion import Suggestion
from ostler.clients.sdk.errors import ClientError
from ostler.protocol.errors import ProtocolError
from ostler.protocol.ids import SessionId

if TYPE_CHECKING:
    from ostler.clients import Ostler
    from ostler.protocol.session import Session

_RESUME: Final = "/resume "


class Suggester:
    """Answers from what is known; what is not is asked for, and the menu is made anew then."""

    def __init__(self, ostler: "Ostler", session_id: SessionId) -> None:
        self._ostler = ostler
        self._session_id = session_id
        self._wanted = ""
        """What the menu was last asked for and is not known."""
        self._changed = anyio.Event()
        self._sessions: list[Session] | None = None

    def suggest(self, text: str, cursor: int) -> Sequence[Suggestion]:
        from ostler.clients.cli.chat.session_commands import suggest_sessions
        from ostler.clients.cli.chat.slash_commands import suggest_slash_commands

        if text.startswith(_RESUME):
            if self._sessions is None:
                return self._want(_RESUME)
            return suggest_sessions(self._sessions, len(_RESUME), text[len(_RESUME) :])
        self._sessions = None
        return suggest_slash_commands(text) if text.startswith("/") and cursor == len(text) else ()

    def _want(self, what: str) -> Sequence[Suggestion]:
        self._wanted = what
        self._changed.set()
        return ()

    async def keep_fetching(self, refresh: Callable[[], None]) -> None:
        """Ask for what is wanted, for as long as this is run."""
        while True:
            await self._changed.wait()
            self._changed, wanted = anyio.Event(), self._wanted
            try:
                await self._fetch(wanted)
            except (ClientError, ProtocolError):
                continue  # there is nothing to offer then
            refresh()

    async def _fetch(self, wanted: str) -> None:
        from ostler.clients.cli.chat.session_commands import list_sessions

        if wanted == _RESUME:
            self._sessions = await list_sessions(self._ostler, None)
