"""Every error that the wire can carry.

ProtocolError
├── RpcError                    JSON-RPC's own, each with its own code
│   ├── ParseError              -32700  the body is not JSON
│   ├── InvalidRequest          -32600  it is JSON, but not a request
│   ├── MethodNotFound          -32601
│   ├── InvalidParams           -32602  data.errors names each bad field
│   └── InternalError           -32603  a bug of ours
└── OstlerError                 -32001  ours, each with a word in data.code
    ├── NotFound
    │   ├── SessionNotFound     session_not_found
    │   ├── TurnNotFound        turn_not_found
    │   ├── MessageNotFound     message_not_found
    │   ├── AskNotFound         ask_not_found
    │   ├── CallNotFound        call_not_found
    │   ├── ToolNotFound        tool_not_found
    │   ├── ResultNotFound      result_not_found
    │   ├── TaskNotFound        task_not_found
    │   ├── TodoNotFound        todo_not_found
    │   └── ClientCallNotFound  client_call_not_found
    ├── AskResolved             ask_resolved        with the ask
    ├── TurnRunning             turn_running        with turn_id
    ├── NoTurnRunning           no_turn_running
    ├── BadFolder               bad_folder
    ├── ModeForbidden           mode_forbidden
    ├── SocketOnly              socket_only
    ├── Conflict                conflict
    ├── TooLarge                too_large
    ├── Overloaded              overloaded          with retry_after_ms
    ├── ModelFailed             model_error         with the provider's status and request id
    ├── BudgetExceeded          budget_exceeded
    ├── StorageFailed           storage_error
    ├── ReadOnly                read_only
    └── ShuttingDown            shutting_down
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Final


class ProtocolError(Exception):
    """Something that goes back to the client as a JSON-RPC error."""

    code: ClassVar[int]
    meaning: ClassVar[str]
    """One line for the reference page."""

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data: dict[str, Any] = data


class RpcError(ProtocolError):
    """An error that JSON-RPC itself defines."""


class ParseError(RpcError):
    code = -32700
    meaning = "The body is not JSON, is not UTF-8, or is nested too deep."


class InvalidRequest(RpcError):
    code = -32600
    meaning = "The JSON is not a JSON-RPC 2.0 request, or the batch is empty or too long."


class MethodNotFound(RpcError):
    code = -32601
    meaning = "There is no such method; `rpc.discover` lists them."


class InvalidParams(RpcError):
    code = -32602
    meaning = "A field is missing, unknown or wrong; `data.errors` has the path and the reason of each."

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        reasons = "; ".join(f"{error['path'] or 'params'}: {error['reason']}" for error in errors[:3])
        more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
        super().__init__(f"Invalid params: {reasons}{more}", errors=errors)

    @classmethod
    def of(cls, path: str, reason: str) -> "InvalidParams":
        return cls([{"path": path, "reason": reason}])


class InternalError(RpcError):
    code = -32603
    meaning = "A bug of the daemon's. Its log has the details under the given `error_id`."


class OstlerError(ProtocolError):
    """An error of ours: clients go by the word in `data.code`."""

    code = -32001
    word: ClassVar[str] = ""
    meaning = "An error of the daemon's own; `data.code` says which."

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message, **{"code": self.word, **data})


class NotFound(OstlerError):
    """The id names nothing here."""

    noun: ClassVar[str]

    def __init__(self, thing_id: str) -> None:
        super().__init__(f"There is no {self.noun} {thing_id!r}.", **{f"{self.noun}_id": thing_id})


class SessionNotFound(NotFound):
    word = "session_not_found"
    noun = "session"
    meaning = "No session has this id, or it was deleted; `session/list` shows what there is."


class TurnNotFound(NotFound):
    word = "turn_not_found"
    noun = "turn"
    meaning = "No turn has this id, or it went with its session."


class MessageNotFound(NotFound):
    word = "message_not_found"
    noun = "message"
    meaning = "The session has no message with this id."


class AskNotFound(NotFound):
    word = "ask_not_found"
    noun = "ask"
    meaning = "No ask has this id, or it went with its session; `ask/list` shows what is open."


class CallNotFound(NotFound):
    word = "call_not_found"
    noun = "call"
    meaning = "No call has this id, or it went with its session."


class ToolNotFound(NotFound):
    word = "tool_not_found"
    noun = "tool"
    meaning = "No tool has this name; `tool/list` shows what there is."


class ResultNotFound(NotFound):
    word = "result_not_found"
    noun = "result"
    meaning = "No result has this id, or it went with its session."


class TaskNotFound(NotFound):
    word = "task_not_found"
    noun = "task"
    meaning = "No task has this id, or it went with its session."


class TodoNotFound(NotFound):
    word = "todo_not_found"
    noun = "todo"
    meaning = "The session's work list has no item with this id."


class ClientCallNotFound(NotFound):
    word = "client_call_not_found"
    noun = "client_call"
    meaning = "No `client.call` with this id waits for the client that answers: it has its answer, or its time is over."


class AskResolved(OstlerError):
    word = "ask_resolved"
    meaning = "Somebody was faster: the ask has its answer already, and `data.ask` says which and whose."


class TurnRunning(OstlerError):
    word = "turn_running"
    meaning = "The session has a turn already; wait for it, steer it, interrupt it, or start with `queue`."


class NoTurnRunning(OstlerError):
    word = "no_turn_running"
    meaning = "The turn, or the call, is over already."


class BadFolder(OstlerError):
    word = "bad_folder"
    meaning = "A folder is missing, relative, unreadable, or no folder."


class ModeForbidden(OstlerError):
    word = "mode_forbidden"
    meaning = "The mode is switched off here; `config.toml` says which are on."


class SocketOnly(OstlerError):
    word = "socket_only"
    meaning = "The method is taken over the Unix socket only; `daemon.json` says where that is."


class Conflict(OstlerError):
    word = "conflict"
    meaning = "The idempotency key was used with other params, or the thing is in another state."


class TooLarge(OstlerError):
    word = "too_large"
    meaning = "What was sent or asked for is over a limit that the message names."


class Overloaded(OstlerError):
    word = "overloaded"
    meaning = "Too much is waiting already; try again after `retry_after_ms`."

    def __init__(self, message: str, *, retry_after_ms: int) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms)


class ModelFailed(OstlerError):
    word = "model_error"
    meaning = "The provider of the model refused or failed; `data` has its status and request id where it gave them."


class BudgetExceeded(OstlerError):
    word = "budget_exceeded"
    meaning = "The budget is used up, or the model has no known price that could be held against one."


class StorageFailed(OstlerError):
    word = "storage_error"
    meaning = "The database could not be written or read; nothing was acknowledged."


class ReadOnly(OstlerError):
    word = "read_only"
    meaning = "The daemon cannot write (disk full, damaged database) and only answers reads; `/readyz` says why."


class ShuttingDown(OstlerError):
    word = "shutting_down"
    meaning = "The daemon is stopping; the call was not started."


def _list_leaves(base: type[ProtocolError]) -> Iterator[type[ProtocolError]]:
    for child in base.__subclasses__():
        if child.__subclasses__():
            yield from _list_leaves(child)
        else:
            yield child


RPC_ERRORS: Final = tuple(_list_leaves(RpcError))
OSTLER_ERRORS: Final[dict[str, type[OstlerError]]] = {
    error.word: error for error in _list_leaves(OstlerError) if issubclass(error, OstlerError)
}


def error_of(code: int, message: str, data: Any) -> ProtocolError:
    """The exception that a JSON-RPC error object stands for: the client's half of the tree."""
    given: dict[str, Any] = data if isinstance(data, dict) else {}
    error: ProtocolError
    if code == OstlerError.code:
        kind: type[ProtocolError] = OSTLER_ERRORS.get(str(given.get("code")), OstlerError)
    else:
        kind = next((rpc for rpc in RPC_ERRORS if rpc.code == code), InternalError)
    error = kind.__new__(kind)
    ProtocolError.__init__(error, message, **given)
    return error
