"""Answering asks: the first answer wins, and whoever was slower is told who won, which is no error."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskGroup

from ostler.clients.sdk.retry import insist
from ostler.clients.sdk.rpc import Link
from ostler.protocol.ask import Answer, AskResolve, Cancel, Decline, Deny, Reject, RestrictFolder
from ostler.protocol.errors import AskNotFound, AskResolved
from ostler.protocol.limits import MAX_PAGE
from ostler.protocol.methods import ASK_RESOLVE
from ostler.protocol.shapes import Ask

if TYPE_CHECKING:
    from ostler.clients.sdk.client import Ostler

OnAsk = Callable[[Ask], Awaitable[Answer | None]]
"""Called with each ask that opens. None leaves it to others. It is cancelled when somebody else was faster."""

_FAREWELL_SECONDS: Final = 2.0
_NOBODY: Final = "Nobody is there to be asked. Do without it, or say what would be needed."


async def refuse(ask: Ask) -> Answer | None:
    """An `on_ask` that says no to everything, so that the turn goes on without it."""
    if ask.kind == "permission":
        return Deny(message=_NOBODY, interrupt=False)
    if ask.kind == "plan":
        return Reject(message=_NOBODY)
    if ask.kind == "trust":
        return RestrictFolder()
    return Decline(message=_NOBODY) if "decline" in ask.choices else Cancel()


async def resolve(link: Link, ask: Ask, answer: Answer) -> Ask:
    """The ask as it ended: by this answer, or by one that came before it."""
    try:
        return await insist(lambda: link.call(ASK_RESOLVE, AskResolve(ask_id=ask.id, answer=answer)))
    except AskResolved as late:
        return Ask.model_validate(late.data["ask"])


class Answerer:
    """Hands asks to a callback, beside whoever reads the events meanwhile."""

    def __init__(self, link: Link, group: TaskGroup, on_ask: OnAsk, failed: Callable[[Exception], None]) -> None:
        self._link = link
        self._group = group
        self._on_ask = on_ask
        self._failed = failed
        self._asking: dict[str, anyio.CancelScope] = {}
        self._sending: set[anyio.CancelScope] = set()

    def opened(self, ask: Ask) -> None:
        """An ask is open; the same one may be told twice."""
        if ask.id not in self._asking:
            self._asking[ask.id] = anyio.CancelScope()
            self._group.start_soon(self._answer, ask, self._asking[ask.id])

    def ended(self, ask: Ask) -> None:
        """It is settled, by us or by somebody else."""
        if ask.id in self._asking:
            self._asking[ask.id].cancel()

    def close(self) -> None:
        """Ask no more; an answer that is on its way has a moment to arrive."""
        for scope in self._asking.values():
            scope.cancel()
        for scope in self._sending:
            scope.deadline = anyio.current_time() + _FAREWELL_SECONDS

    async def _answer(self, ask: Ask, scope: anyio.CancelScope) -> None:
        try:
            answer: Answer | None = None
            with scope:
                answer = await self._on_ask(ask)
            if answer is not None:
                await self._send(ask, answer)
        except AskNotFound:
            return  # it went with its session
        except Exception as error:  # noqa: BLE001 - whatever a callback raises belongs to whoever reads the turn
            self._failed(error)

    async def _send(self, ask: Ask, answer: Answer) -> None:
        # Not cancelled when the ask ends, since that is what it brings about.
        with anyio.CancelScope(shield=True) as scope:
            self._sending.add(scope)
            try:
                await resolve(self._link, ask, answer)
            finally:
                self._sending.discard(scope)


async def list_asks(ostler: "Ostler", session_id: str | None, status: str | None) -> list[dict[str, Any]]:
    """All of them, however many pages they take."""
    found: list[dict[str, Any]] = []
    page: str | None = None
    while True:
        wanted = {"session_id": session_id, "status": status, "limit": MAX_PAGE, "page": page}
        answered = await ostler.request("ask/list", wanted)
        found += answered["asks"]
        page = answered["next"]
        if page is None:
            return found
