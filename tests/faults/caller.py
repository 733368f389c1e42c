"""A client with one keep-alive connection that distinguishes a lost call from a refused one."""

import http.client
import json
from typing import Any

from tests.support.daemon import Daemon


class ConnectionLost(Exception):
    """The connection broke before the answer came: the call may have been done, or not."""


class CallRefused(Exception):
    """The daemon answered with an error: the call was not done."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: object = error.get("data", {}).get("code", error["code"])
        self.reason: object = error.get("data", {}).get("reason")


class Caller:
    def __init__(self, daemon: Daemon, timeout: float = 30.0) -> None:
        self._connection = daemon.open_connection(timeout=timeout)
        self._headers = {"Authorization": f"Bearer {daemon.token}", "Content-Type": "application/json"}

    def call(self, method: str, **params: Any) -> Any:
        return _unwrap_result(self._post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))

    def call_batch(self, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
        """The results of several calls that all must succeed, in their order."""
        body = [
            {"jsonrpc": "2.0", "id": number, "method": name, "params": params}
            for number, (name, params) in enumerate(calls)
        ]
        return [_unwrap_result(answer) for answer in self._post(body)]

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
            raise ConnectionLost from error
        assert response.status == 200, (response.status, raw)
        return json.loads(raw)


def _unwrap_result(answer: dict[str, Any]) -> Any:
    if "error" in answer:
        raise CallRefused(answer["error"])
    return answer["result"]
