"""A client that keeps one connection, and tells a lost call from a refused one."""

import http.client
import json
from typing import Any

from tests.support.daemon import Daemon


class Lost(Exception):
    """The connection went before the answer came: what was asked may be done, or not."""


class Refused(Exception):
    """The daemon said no: what was asked is not done."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.word: object = error.get("data", {}).get("code", error["code"])
        self.reason: object = error.get("data", {}).get("reason")


class Caller:
    def __init__(self, daemon: Daemon, timeout: float = 30.0) -> None:
        self._connection = daemon.connection(timeout=timeout)
        self._headers = {"Authorization": f"Bearer {daemon.token}", "Content-Type": "application/json"}

    def call(self, method: str, **params: Any) -> Any:
        return _result(self._post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))

    def batch(self, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
        """The results of several calls that all must succeed, in their order."""
        body = [{"jsonrpc": "2.0", "id": at, "method": name, "params": given} for at, (name, given) in enumerate(calls)]
        return [_result(answer) for answer in self._post(body)]

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _post(self, body: Any) -> Any:
        try:
            self._connection.request("POST", "/rpc", json.dumps(body), self._headers)
            response = self._connection.getresponse()
            raw = response.read()
        except TimeoutError:
            raise  # a daemon that does not answer is not a daemon that died
        except (OSError, http.client.HTTPException) as error:
            raise Lost from error
        assert response.status == 200, (response.status, raw)
        return json.loads(raw)


def _result(answer: dict[str, Any]) -> Any:
    if "error" in answer:
        raise Refused(answer["error"])
    return answer["result"]
