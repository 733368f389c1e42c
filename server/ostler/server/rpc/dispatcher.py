"""The JSON-RPC dispatcher: parses a body, runs its calls, encodes the answer. It knows nothing of HTTP."""

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import anyio
from pydantic import ValidationError

from ostler.protocol.envelope import Request, failure, is_notification, read_request, request_id, success
from ostler.protocol.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
    ShuttingDown,
    SocketOnly,
)
from ostler.protocol.limits import MAX_BATCH
from ostler.protocol.methods import Method
from ostler.protocol.wire import Params, Shape
from ostler.server.observability import logs
from ostler.server.observability.metrics import CallCounts
from ostler.server.rpc.bounded_json import read_json
from ostler.server.rpc.locks import Locks
from ostler.server.rpc.param_errors import describe_error
from ostler.storage.sqlite import long_json
from ostler.storage.sqlite.long_json import LONG_CHARS
from ostler.tools.threads import read_in_thread

_SHOWN_ERRORS: Final = 50

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Shape)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call."""

    client_id: str | None = None
    """As the caller claims; it is looked up where it matters."""
    on_socket: bool = False
    """The call came over the Unix socket."""
    disconnected: anyio.Event | None = None
    """Set when the connection closes; only given where a call waits."""


Handler = Callable[[Any, Caller], Awaitable[Shape]]


class Handlers:
    """The table of methods with a handler bound to each."""

    def __init__(self) -> None:
        self._bound: dict[str, tuple[Method[Any, Any], Handler]] = {}

    def bind(self, method: Method[P, R], handler: Callable[[P, Caller], Awaitable[R]]) -> None:
        assert method.locks != "session" or "session_id" in method.params.model_fields, (
            f"{method.name} locks no session"
        )
        self._bound[method.name] = (method, handler)

    def __iter__(self) -> Iterator[str]:
        return iter(self._bound)

    def find(self, name: str) -> tuple[Method[Any, Any], Handler]:
        try:
            return self._bound[name]
        except KeyError:
            raise MethodNotFound(f"There is no method {name[:100]!r}; rpc.discover lists them.") from None


@dataclass(frozen=True, slots=True)
class Body:
    """A parsed body: one call, or a batch."""

    calls: list[Any]
    is_batch: bool


class Dispatcher:
    def __init__(self, handlers: Handlers, counts: CallCounts, locks: Locks) -> None:
        self._handlers = handlers
        self._counts = counts
        self._locks = locks
        self._encode_lock = anyio.Lock()
        """One long answer is encoded at a time: several such threads would leave the event loop little of the GIL."""
        self.stopping = False
        self.running = 0

    def parse_body(self, raw: bytes) -> Body:
        """The calls in a body; raises the errors that concern a body as a whole."""
        value = read_json(raw)
        if not isinstance(value, list):
            return Body([value], is_batch=False)
        if not 0 < len(value) <= MAX_BATCH:
            raise InvalidRequest(f"A batch has 1 to {MAX_BATCH} calls; this one has {len(value)}.")
        return Body(value, is_batch=True)

    def has_waiting_call(self, body: Body) -> bool:
        """Whether one of its calls only waits for something, so that the connection has to be watched."""
        return any(isinstance(call, dict) and self._is_waiting_method(call.get("method")) for call in body.calls)

    async def answer(self, body: Body, caller: Caller) -> bytes | None:
        """The answer, or None where there is none to give: notifications are never answered."""
        if not body.is_batch:
            return await self._answer_call(body.calls[0], caller)
        answers: list[bytes | None] = [None] * len(body.calls)

        async def fill(index: int, call: Any) -> None:
            answers[index] = await self._answer_call(call, caller)

        async with anyio.create_task_group() as group:
            for index, call in enumerate(body.calls):
                group.start_soon(fill, index, call)
        given = [answer for answer in answers if answer is not None]
        if not given:
            return None
        parts = [b"[", *(part for answer in given for part in (answer, b",")), b"]"]
        del parts[-2]
        return b"".join(parts) if sum(map(len, given)) < LONG_CHARS else await read_in_thread(b"".join, parts)

    async def _answer_call(self, call: Any, caller: Caller) -> bytes | None:
        answer_to = request_id(call)
        silent = is_notification(call)
        began = time.perf_counter()
        method = "invalid"
        self.running += 1
        try:
            request = read_request(call)
            method = request.method
            result = await self._run_call(request, caller)
            answer = await self._encode_answer(answer_to, result)
            outcome = "ok"
        except Exception as error:  # noqa: BLE001 - the one place where exceptions become wire errors
            wire = to_wire_error(error, method)
            answer = failure(answer_to, wire)
            outcome = str(wire.data.get("code", wire.code))
        finally:
            self.running -= 1
        self._counts.note(method, outcome, time.perf_counter() - began)
        return None if silent else answer

    async def _run_call(self, request: Request, caller: Caller) -> Shape:
        method, handler = self._handlers.find(request.method)
        if method.socket_only and not caller.on_socket:
            # Before anything is looked at that it brings.
            raise SocketOnly(f"{method.name} is taken over the Unix socket only; `daemon.json` says where that is.")
        if self.stopping:
            raise ShuttingDown("The daemon is stopping.")
        _check_unknown_fields(method.params, request.params)
        try:
            params = method.params.model_validate(request.params)
        except ValidationError as error:
            raise _build_invalid_params(error) from None
        if method.waits and caller.disconnected is not None:
            return await _run_until_disconnect(self._run_locked(method, handler, params, caller), caller.disconnected)
        return await self._run_locked(method, handler, params, caller)

    async def _run_locked(self, method: Method[Any, Any], handler: Handler, params: Any, caller: Caller) -> Shape:
        if method.locks == "nothing":
            return await handler(params, caller)
        async with self._locks.hold(method.locks, getattr(params, "session_id", None)):
            return await handler(params, caller)

    async def _encode_answer(self, answer_to: Any, result: Shape) -> bytes:
        if not long_json.is_long(result):
            return success(answer_to, result.encoded())
        async with self._encode_lock:
            return await read_in_thread(lambda: success(answer_to, long_json.encode(result)))

    def _is_waiting_method(self, name: Any) -> bool:
        try:
            return self._handlers.find(str(name))[0].waits
        except MethodNotFound:
            return False


async def _run_until_disconnect(waiting: Awaitable[Shape], disconnected: anyio.Event) -> Shape:
    """The result; the work is cancelled when the caller disconnects."""
    result: list[Shape] = []

    async with anyio.create_task_group() as group:

        async def watch() -> None:
            await disconnected.wait()
            group.cancel_scope.cancel()

        group.start_soon(watch)
        result.append(await waiting)
        group.cancel_scope.cancel()
    if not result:
        raise ShuttingDown("The caller has left.")
    return result[0]


def _check_unknown_fields(model: type[Params], given: dict[str, Any]) -> None:
    """Refuse very many unknown fields: pydantic would make an error of each, and the answer would be as long."""
    if len(given) > len(model.model_fields) + _SHOWN_ERRORS:
        unknown = [name for name in given if name not in model.model_fields]
        raise InvalidParams([{"path": name[:100], "reason": "unknown field"} for name in unknown[:_SHOWN_ERRORS]])


def _build_invalid_params(error: ValidationError) -> InvalidParams:
    found = error.errors(include_url=False, include_input=False)
    errors = [{"path": ".".join(str(part) for part in one["loc"]), "reason": describe_error(one)} for one in found]
    return InvalidParams(errors[:_SHOWN_ERRORS])


def to_wire_error(error: Exception, method: str) -> ProtocolError:
    """What a client is told about an exception. No stack trace ever leaves the daemon."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    match error:
        case ProtocolError():
            return error
        case _:
            error_id = f"{time.time_ns():x}"
            logs.log.error("call_failed", method=method, error_id=error_id, exc_info=error)
            return InternalError("The daemon made a mistake; its log says which.", error_id=error_id)
