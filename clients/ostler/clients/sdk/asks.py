"""Answering asks: the first answer wins, and whoever was slower is told who won, which is no error."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskGroup

from ostler.clients.sdk.retry import retry_call
from ostler.clients.sdk.rpc import RpcConnection
from ostler.protocol.ask import Answer, AskResolve, Cancel, Decline, Deny, Reject, RestrictFolder
from ostler.protocol.errors import AskNotFound, AskResolved
from ostler.protocol.limits import MAX_PAGE
from ostler.protocol.methods import ASK_RESOLVE
from ostler.protocol.shapes import Ask

if TYPE_CHECKING:
    from ostler.clients.sdk.client import Ostler

OnAsk = Callable[[Ask], Awaitable[Answer | None]]
"""Called with each ask that opens. None leaves it to others. It is cancelled when somebody else was faster."""

_SEND_GRACE_SECONDS: Final = 2.0
_REFUSAL_MESSAGE: Final = "Nobody is there to be asked. Do without it, or say what would be needed."


async def refuse(ask: Ask) -> Answer | None:
    """An `on_ask` that says no to everything, so that the turn goes on without it."""
    if ask.kind == "permission":
        return Deny(message=_REFUSAL_MESSAGE, interrupt=False)
    if ask.kind == "plan":
        return Reject(message=_REFUSAL_MESSAGE)
    if ask.kind == "trust":
        return RestrictFolder()
    return Decline(message=_REFUSAL_MESSAGE) if "decline" in ask.choices else Cancel()


async def resolve(rpc: RpcConnection, ask: Ask, answer: Answer) -> Ask:
    """The ask as it ended: by this answer, or by one that came before it."""
    try:
        return await retry_call(lambda: rpc.call(ASK_RESOLVE, AskResolve(ask_id=ask.id, answer=answer)))
    except AskResolved as late:
        return Ask.model_validate(late.data["ask"])


class Answerer:
    """Runs a callback for each open ask, concurrently with whoever reads the events."""

    def __init__(
        self, rpc: RpcConnection, group: TaskGroup, on_ask: OnAsk, on_failure: Callable[[Exception], None]
    ) -> None:
        self._rpc = rpc
        self._group = group
        self._on_ask = on_ask
        self._on_failure = on_failure
        self._callback_scopes: dict[str, anyio.CancelScope] = {}
        self._send_scopes: set[anyio.CancelScope] = set()

    def start_answering(self, ask: Ask) -> None:
        """Run the callback for an open ask; the same one may be reported twice."""
        if ask.id not in self._callback_scopes:
            self._callback_scopes[ask.id] = anyio.CancelScope()
            self._group.start_soon(self._answer, ask, self._callback_scopes[ask.id])

    def stop_answering(self, ask: Ask) -> None:
        """Cancel the callback of an ask that is settled, by us or by somebody else."""
        if ask.id in self._callback_scopes:
            self._callback_scopes[ask.id].cancel()

    def close(self) -> None:
        """Cancel all callbacks; an answer that is on its way has a moment to arrive."""
        for scope in self._callback_scopes.values():
            scope.cancel()
        for scope in self._send_scopes:
            scope.deadline = anyio.current_time() + _SEND_GRACE_SECONDS

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
            self._on_failure(error)

    async def _send(self, ask: Ask, answer: Answer) -> None:
        # Not cancelled when the ask ends, since that is what it brings about.
        with anyio.CancelScope(shield=True) as scope:
            self._send_scopes.add(scope)
            try:
                await resolve(self._rpc, ask, answer)
            finally:
                self._send_scopes.discard(scope)


async def list_asks(ostler: "Ostler", session_id: str | None, status: str | None) -> list[dict[str, Any]]:
    """All asks, however many pages they take."""
    found: list[dict[str, Any]] = []
    page: str | None = None
    while True:
        wanted = {"session_id": session_id, "status": status, "limit": MAX_PAGE, "page": page}
        answered = await ostler.request("ask/list", wanted)
        found += answered["asks"]
        page = answered["next"]
        if page is None:
            return found
