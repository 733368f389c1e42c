"""A real daemon in its own process, and a plain client for it: what most tests drive."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

from tests.support.forked import ForkedProcess, can_fork, fork_daemon

START_SECONDS = 30.0


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float = 30.0) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(frozen=True)
class HttpResponse:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Daemon:
    """`python -P -m ostler.server` in a home of its own.

    It is forked by a process that has imported what a daemon imports; where the start itself matters, it is `cold`.
    """

    home: Path
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    prefix: list[str] = field(default_factory=list)
    """A command to start it under."""
    cold: bool = False
    """Start it with the real command: for what is said of memory, imports, the process itself and how long it takes."""
    process: subprocess.Popen[bytes] | ForkedProcess | None = None
    url: str = ""

    def start(self) -> Self:
        self.spawn()
        self.wait_ready()
        return self

    def spawn(self) -> None:
        """Start the process, ready or not."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        arguments = ["--home", str(self.home), "--port", "0", *self.arguments]
        environ = {key: value for key, value in os.environ.items() if not key.startswith(("OSTLER_", "ANTHROPIC_"))}
        environ |= self.environment
        with (self.home / "stderr").open("ab") as errors:
            if self.cold or self.prefix or not can_fork(self.environment):
                self.process = subprocess.Popen(
                    [*self.prefix, sys.executable, "-P", "-m", "ostler.server", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=environ,
                )
            else:
                self.process = fork_daemon(arguments, environ, errors.fileno())

    def wait_ready(self, seconds: float = START_SECONDS) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline().decode() if ready else ""
        assert line.startswith("ostler ready "), f"the daemon did not start: {line!r}\n{self.stderr}"
        self.url = line.split()[2]

    @property
    def stderr(self) -> str:
        return (self.home / "stderr").read_text(errors="replace")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    @property
    def token(self) -> str:
        return (self.home / "token").read_text().strip()

    @property
    def socket_path(self) -> str:
        return str(json.loads((self.home / "daemon.json").read_text())["socket"])

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, timeout: float = 15.0) -> int:
        assert self.process is not None
        code = self.process.wait(timeout)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        if self.process is not None:
            self.wait()

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    # Requests.

    def open_connection(self, *, unix: bool = False, timeout: float = 30.0) -> http.client.HTTPConnection:
        if unix:
            return UnixConnection(self.socket_path, timeout)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def send_http(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        unix: bool = False,
        authorised: bool = True,
    ) -> HttpResponse:
        given = {"Authorization": f"Bearer {self.token}"} if authorised else {}
        connection = self.open_connection(unix=unix)
        try:
            connection.request(method, path, body, {**given, **(headers or {})})
            response = connection.getresponse()
            return HttpResponse(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def post(self, body: bytes, headers: dict[str, str] | None = None) -> HttpResponse:
        """A raw body to /rpc."""
        return self.send_http("POST", "/rpc", body, {"Content-Type": "application/json", **(headers or {})})

    def send_rpc(self, method: str, params: Any = None, *, headers: dict[str, str] | None = None) -> Any:
        """The whole JSON-RPC answer."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {} if params is None else params}
        answer = self.post(json.dumps(call).encode(), headers)
        assert answer.status == 200, answer
        return answer.json

    def call(self, method: str, **params: Any) -> Any:
        """The result of a call that must succeed."""
        answer = self.send_rpc(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def expect_error(self, method: str, **params: Any) -> Any:
        """The error of a call that must fail."""
        answer = self.send_rpc(method, params)
        assert "error" in answer, answer
        return answer["error"]

    def follow(self, query: str = "", headers: dict[str, str] | None = None, timeout: float = 30.0) -> "EventStream":
        return EventStream(self, query, headers or {}, timeout)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.end_commands()

    def end_commands(self) -> None:
        """What a killed daemon left running would be ended by the next one; here nobody comes next."""
        tasks = str(self.home / "tasks").encode()
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError, OSError):
                if tasks in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                    os.killpg(process.pid, signal.SIGKILL)


class EventStream:
    """An open connection to /events, whose response has begun: it gets every event from now on."""

    def __init__(self, daemon: Daemon, query: str, headers: dict[str, str], timeout: float) -> None:
        self._connection = daemon.open_connection(timeout=timeout)
        self._connection.request(
            "GET", f"/events{query}", headers={"Authorization": f"Bearer {daemon.token}", **headers}
        )
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.socket = self._connection.sock

    def read_frames(self) -> Iterator[dict[str, str]]:
        """Each server-sent event as its fields; comments are left out. Ends when the daemon ends the stream."""
        fields: dict[str, str] = {}
        while True:
            try:
                line = self._response.readline()
            except (http.client.IncompleteRead, ConnectionError):
                return
            if not line:
                return
            text = line.decode().rstrip("\n")
            if text == "":
                if fields:
                    yield fields
                fields = {}
            elif not text.startswith(":"):
                name, _, value = text.partition(": ")
                fields[name] = value

    def read_events(self) -> Iterator[dict[str, Any]]:
        for frame in self.read_frames():
            event = json.loads(frame["data"])
            assert event["type"] == frame["event"]
            assert str(event["cursor"]) == frame.get("id", "None")
            yield event

    def take(self, count: int) -> list[dict[str, Any]]:
        stream = self.read_events()
        return [next(stream) for _ in range(count)]

    def wait_for(self, kind: str) -> dict[str, Any]:
        return next(event for event in self.read_events() if event["type"] == kind)

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wait_until(holds: Any, seconds: float = 15.0) -> None:
    """Poll for something that no event announces, every few milliseconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
