"""What the menu below the line offers: slash commands, sessions, files."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import anyio

from ostler.clients.cli.terminal.completion import Suggestion, find_mention
from ostler.clients.sdk.errors import ClientError
from ostler.protocol.errors import ProtocolError
from ostler.protocol.file import FileSearch, FoundFile
from ostler.protocol.ids import SessionId
from ostler.protocol.methods import FILE_SEARCH

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
        self._files: dict[str, list[FoundFile]] = {}
        """What was found for the letters of a mention, for as long as one is typed."""

    def suggest(self, text: str, cursor: int) -> Sequence[Suggestion]:
        from ostler.clients.cli.chat.session_commands import suggest_sessions
        from ostler.clients.cli.chat.slash_commands import suggest_slash_commands

        if text.startswith(_RESUME):
            if self._sessions is None:
                return self._want(_RESUME)
            return suggest_sessions(self._sessions, len(_RESUME), text[len(_RESUME) :])
        self._sessions = None
        mention = find_mention(text, cursor)
        if mention is not None:
            return self._suggest_files(*mention)
        self._files.clear()
        return suggest_slash_commands(text) if text.startswith("/") and cursor == len(text) else ()

    def _suggest_files(self, start: int, query: str) -> Sequence[Suggestion]:
        """What is known, and until more is, what was found for fewer letters."""
        if query not in self._files:
            self._want(f"@{query}")
        known = next((at for at in range(len(query), -1, -1) if query[:at] in self._files), None)
        found = self._files[query[:known]] if known is not None else []
        return [
            Suggestion(start, f"@{file.path}" if file.kind == "folder" else f"@{file.path} ", "")
            for file in found
            if not any(char.isspace() for char in file.path) and _fits(file.path, query)
        ]

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
        elif wanted.startswith("@") and wanted[1:] not in self._files:
            params = FileSearch(session_id=self._session_id, query=wanted[1:])
            self._files[wanted[1:]] = (await self._ostler.call(FILE_SEARCH, params)).files


def _fits(path: str, query: str) -> bool:
    """Whether the path has these letters in their order: what was found for fewer of them may not."""
    letters = iter(path.lower())
    return all(char in letters for char in query.lower().removeprefix("./"))
