"""JSON-RPC to the daemon, wherever it is now: a daemon that comes back on another port is found again."""

from collections.abc import Awaitable, Callable
from functools import cache
from itertools import count
from typing import Any, Final, Generic, Literal, TypeVar, cast, get_args, get_origin

import httpx2
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import from_json, to_json

from ostler.clients.sdk.address import Address
from ostler.clients.sdk.errors import DaemonUnreachable, UnexpectedAnswer
from ostler.clients.sdk.http import build_http_error, build_timeout, map_http_errors, open_http
from ostler.protocol.client import Initialize, Initialized
from ostler.protocol.errors import error_of
from ostler.protocol.methods import INITIALIZE, SERVER_INFO, Method
from ostler.protocol.wire import Nothing, Params, Shape

CALL_SECONDS: Final = 60.0

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Shape)

AddressFinder = Callable[[], Awaitable[Address]]
"""Finds the address that the daemon has at this moment."""


class _Error(BaseModel):
    code: int
    message: str
    data: Any = None


class _Answer(BaseModel, Generic[R]):
    result: R | None = None
    error: _Error | None = None


@cache
def _build_envelope(result: type[Shape]) -> type[_Answer[Any]]:
    return cast("type[_Answer[Any]]", _Answer.__class_getitem__(result))


def _parse_answer(result: type[R], body: bytes) -> _Answer[R]:
    """The envelope and the result in it, in one pass over the bytes."""
    return _build_envelope(result).model_validate_json(body)


def _dump_given_fields(value: Any) -> Any:
    """Only the fields that were set: defaults are for the daemon to choose. A tag is always sent: it names the type."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        known = value.model_fields_set | {name for name, field in fields.items() if _is_tag(field)}
        return {
            fields[name].alias or name: _dump_given_fields(getattr(value, name)) for name in fields if name in known
        }
    return [_dump_given_fields(one) for one in value] if isinstance(value, list) else value


def _is_tag(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1


class RpcConnection:
    """The RPC connection of one client, which introduces itself with `initialize`."""

    def __init__(self, find: AddressFinder, introduction: Initialize) -> None:
        self.find = find
        self.daemon: Initialized
        self._introduction = introduction
        self._ids = count(1)
        self._headers: dict[str, str] = {}
        self._address: Address
        self._http: httpx2.AsyncClient

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers that tell the daemon which client is calling."""
        return self._headers

    async def open(self) -> None:
        self._address = await self.find()
        self._http = open_http(self._address, read_seconds=CALL_SECONDS)
        try:
            await self._introduce()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._http.aclose()

    async def _introduce(self) -> None:
        self.daemon = await self.call(INITIALIZE, self._introduction)
        self._headers = {"Ostler-Client": self.daemon.client_id}

    async def fetch_database_id(self) -> str:
        """Which database the daemon has now; where it is another one, this client introduces itself again."""
        info = await self.call(SERVER_INFO, Nothing())
        if info.database_id != self.daemon.database_id:
            await self._introduce()
        return self.daemon.database_id

    async def call(self, method: Method[P, R], params: P, seconds: float = CALL_SECONDS) -> R:
        body = await self._exchange(method.name, to_json(_dump_given_fields(params)), seconds)
        try:
            answer = _parse_answer(method.result, body)
        except ValidationError as wrong:
            raise UnexpectedAnswer(f"The answer to {method.name!r} is not what this version knows: {wrong}") from wrong
        if answer.error is not None:
            raise error_of(answer.error.code, answer.error.message, answer.error.data)
        if answer.result is None:
            raise UnexpectedAnswer(f"The answer to {method.name!r} has neither a result nor an error.")
        return answer.result

    async def request(self, method: str, params: dict[str, Any], seconds: float = CALL_SECONDS) -> Any:
        body = await self._exchange(method, to_json(params), seconds)
        try:
            answer = from_json(body)
            error = answer.get("error")
        except (ValueError, AttributeError) as wrong:
            raise UnexpectedAnswer(f"The answer to {method!r} is not a JSON-RPC answer.") from wrong
        if error is not None:
            raise error_of(error["code"], error["message"], error.get("data"))
        return answer.get("result")

    async def _exchange(self, method: str, params: bytes, seconds: float) -> bytes:
        body = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (
            next(self._ids),
            to_json(method),
            params,
        )
        http = self._http
        answer = await self._post(http, body, seconds)
        # Nothing was done yet in either case, so it is safe to try again where the daemon is now.
        if (answer is None or answer.status_code in {401, 403}) and await self._reconnect_if_moved(http):
            answer = await self._post(self._http, body, seconds)
        if answer is None:
            raise DaemonUnreachable(f"Nobody answers at {self._address}. Start the daemon with `ostler start`.")
        if answer.status_code != 200:
            raise build_http_error(self._address, answer.status_code, answer.content)
        return answer.content

    async def _post(self, http: httpx2.AsyncClient, body: bytes, seconds: float) -> httpx2.Response | None:
        """The answer, or None when no connection came about."""
        headers = {"Content-Type": "application/json", **self._headers}
        with map_http_errors(self._address):
            try:
                return await http.post("/rpc", content=body, headers=headers, timeout=build_timeout(seconds))
            except httpx2.ConnectError:
                return None

    async def _reconnect_if_moved(self, used: httpx2.AsyncClient) -> bool:
        """Whether the daemon has moved to another address; from now on calls go there."""
        address = await self.find()
        if self._http is not used:
            return True  # another call was faster
        if address == self._address:
            return False
        self._address, self._http = address, open_http(address, read_seconds=CALL_SECONDS)
        await used.aclose()
        return True
