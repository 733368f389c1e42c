"""Hooks that are HTTP servers, on a real server."""

import contextlib
import gzip
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from tests.server.hooks.hooking import BASH_CALL, Project

pytestmark = pytest.mark.anyio

DENY = b'{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}'
READING_PROC = {
    "read_process",
    "has_no_leftovers",
    "list_main_thread_children",
    "_has_marker",
    "_read_descriptor_target",
}
SIGNED_BY_ITSELF = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQghu2v0gS6iGeXns7v
t2NGbLwGS97GjCzFLqabLCyoBxahRANCAAS8oXfXeAWxwL7Uzml9hMkDScugCnP3
Wwz86gNkxHFTIVZ0JVulmnVPn+ocVv+N6ZYZ3h1QYL3g3YNsV33H+TvV
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBkDCCATagAwIBAgIUAuUKaUI+gQVUy91OU9+pgk1syPwwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNjExMDAzNFoYDzIxMjYxMDIz
MTEwMDM0WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAS8oXfXeAWxwL7Uzml9hMkDScugCnP3Wwz86gNkxHFTIVZ0JVulmnVP
n+ocVv+N6ZYZ3h1QYL3g3YNsV33H+TvVo2QwYjAdBgNVHQ4EFgQUQc7d9DPDGMxc
UsBz0xZUl9JCJI0wHwYDVR0jBBgwFoAUQc7d9DPDGMxcUsBz0xZUl9JCJI0wDwYD
VR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0gAMEUC
IQCDzJxVnB3nzzPB85Bb2wVcWBTx/bh5KgYB7nMncv8MvQIgPVQbmEz9uBGY4A4z
eUtgVg6h9Bwu6P4Sg5fuB8omVF0=
-----END CERTIFICATE-----
"""
ANSWERS = {
    "/deny": (200, DENY),
    "/allow": (200, DENY.replace(b"deny", b"allow")),
    "/text": (200, b"mind the gap"),
    "/empty": (204, b""),
    "/error": (500, DENY),
    "/big": (200, b" " * 3_000_000),
    "/broken": (200, b'{"hookSpecificOutput":'),
}


class Server(ThreadingHTTPServer):
    """Answers by path, and remembers what it got."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.over = threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    @property
    def ours(self) -> Server:
        assert isinstance(self.server, Server)
        return self.server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.ours.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        with contextlib.suppress(OSError):
            self._answer()

    def _answer(self) -> None:
        match self.path:
            case "/redirect":
                self._send(307, b"", location=self.ours.url("/deny"))
            case "/zipped":
                self._send(200, gzip.compress(DENY), content_encoding="gzip")
            case "/hangs":
                self.ours.over.wait(60)
            case "/drips":
                self.send_response(200)
                self.end_headers()
                while not self.ours.over.wait(0.05):
                    self.wfile.write(b" ")
            case "/garbage":
                self.wfile.write(b"this is not HTTP\r\n\r\n")
            case path:
                self._send(*ANSWERS[path])

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


def http(url: str, **further: Any) -> dict[str, Any]:
    return {"type": "http", "url": url, **further}


async def test_the_payload_is_posted_and_the_answer_read_like_a_commands(project: Project, server: Server) -> None:
    outcome = await project.run("PreToolUse", http(server.url("/deny")))
    assert outcome.decision == "deny"
    ((_, headers, body),) = server.got
    assert json.loads(body) == {**BASH_CALL, "hook_event_name": "PreToolUse"}
    assert headers["content-type"] == "application/json"
    assert (await project.run("PreToolUse", http(server.url("/allow")))).decision == "allow"


async def test_plain_words_and_none_are_answers_too(project: Project, server: Server) -> None:
    outcome = await project.run("UserPromptSubmit", http(server.url("/text")), http(server.url("/empty")))
    assert (outcome.context, outcome.warnings) == (("mind the gap",), ())


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/error", "it answered with status 500"),
        ("/redirect", "it answered with status 307"),
        ("/big", "more than 1048576 bytes"),
        ("/zipped", "an encoding that was not asked for"),
        ("/broken", "begins like JSON and is none"),
        ("/garbage", "RemoteProtocolError"),
        ("/hangs", "it took longer than 0.3 s"),
        ("/drips", "it took longer than 0.3 s"),
    ],
)
async def test_any_other_answer_is_a_warning_and_a_policys_no(
    project: Project, server: Server, path: str, words: str
) -> None:
    timeout = 0.3 if path in {"/hangs", "/drips"} else 60
    outcome = await project.run("PreToolUse", http(server.url(path), timeout=timeout))
    assert outcome.decision is None
    assert words in outcome.warnings[0]
    assert [got[0] for got in server.got] == [path]
    policy = await project.run("PreToolUse", http(server.url(path), timeout=timeout), source="policy")
    assert policy.decision == "deny"


async def test_nobody_there_is_a_warning(project: Project, server: Server) -> None:
    url = server.url("/deny")
    server.shutdown()
    server.server_close()
    outcome = await project.run("PreToolUse", http(url))
    assert outcome.decision is None
    assert "ConnectError" in outcome.warnings[0]


async def test_headers_hold_only_the_variables_that_are_named(project: Project, server: Server) -> None:
    project.variables = {"TEAM": "blue", "OTHER": "secret"}
    headers = {"X-Team": "${TEAM}/$TEAM", "X-Unset": "<${MISSING}>", "X-Plain": "5 $ and $$"}
    await project.run("PreToolUse", http(server.url("/empty"), headers=headers, allowedEnvVars=["TEAM", "MISSING"]))
    ((_, got, _),) = server.got
    assert (got["x-team"], got["x-unset"], got["x-plain"]) == ("blue/blue", "<>", "5 $ and $$")
    assert "secret" not in str(got)


async def test_a_variable_cannot_add_a_header(project: Project, server: Server) -> None:
    project.variables = {"TEAM": "blue\r\nX-Evil: 1"}
    hook = http(server.url("/empty"), headers={"X-Team": "${TEAM}"}, allowedEnvVars=["TEAM"])
    outcome = await project.run("PreToolUse", hook)
    assert outcome.runs[0].outcome == "failed"
    assert server.got == []


async def test_no_proxy_and_no_netrc_is_taken_from_the_environment(
    project: Project, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(project.folder / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1/")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1/")
    assert (await project.run("PreToolUse", http(server.url("/deny")))).decision == "deny"
    assert "authorization" not in server.got[0][1]


async def test_no_kind_of_hook_blocks_the_event_loop(project: Project, server: Server) -> None:
    with blockbuster_ctx(["ostler.server.hooks"]) as blockbuster:
        # The kernel answers /proc from memory.
        for function in blockbuster.functions.values():
            function.can_block_in("ostler/tools/process/tree.py", READING_PROC)
        outcome = await project.run(
            "PreToolUse",
            http(server.url("/deny")),
            {"type": "command", "command": "head -c 3000000 /dev/zero; cat >&2; exit 2"},
            tool_input={"command": "x" * 1_000_000},
        )
    assert outcome.warnings == ()
    assert [run.outcome for run in outcome.runs] == ["denied", "denied"]


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
async def test_a_server_that_nobody_vouches_for_gets_nothing(project: Project, server: Server, scheme: str) -> None:
    (project.folder / "own.pem").write_text(SIGNED_BY_ITSELF)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(project.folder / "own.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    outcome = await project.run("PreToolUse", http(server.url("/deny").replace("http", scheme)))
    assert "CERTIFICATE_VERIFY_FAILED" in outcome.warnings[0]
    assert server.got == []
