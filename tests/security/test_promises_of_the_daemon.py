"""Promises of the daemon that no other test is named after: access, asks, logs, data at rest."""

import json
import select
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.routing import Route
from starlette.types import Message

from ostler.protocol.config import Listen
from ostler.server.api.exports.downloads import build_downloads_app
from ostler.server.http.access import AccessGuard, make_allowed_names
from ostler.server.http.sockets import open_sockets
from ostler.storage.sqlite.database import open_database
from tests.security.target import KEY, TEXT, TITLE, WRONG_TOKEN
from tests.support.daemon import Daemon


@pytest.fixture(scope="module")
def keyed_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with a key, of a person whose own files are open to everybody."""
    environment = {"ANTHROPIC_API_KEY": KEY, "OSTLER_MODEL": "rehearsal", "OSTLER_LOG__LEVEL": "debug"}
    open_to_all = ["sh", "-c", 'umask 0; exec "$@"', "sh"]
    with Daemon(tmp_path_factory.mktemp("promises") / "home", [], environment, open_to_all) as daemon:
        yield daemon


# Every route and every ASGI scope is behind the token.


def test_every_route_is_behind_the_token(shared_daemon: Daemon) -> None:
    pages = build_downloads_app(cast(Any, None), cast(Any, None), "")
    paths = [route.path.format(result_id="r_1", session_id="s_1") for route in pages.routes if isinstance(route, Route)]
    assert {"/metrics", "/openrpc.json", "/results/r_1", "/sessions/s_1/export"} <= set(paths)
    for path in ["/rpc", "/events", *paths]:
        for method in ("GET", "POST"):
            answer = shared_daemon.send_http(method, path, authorised=False)
            assert answer.status == 401, path
            assert answer.body.startswith(b"Wanted: "), path


@pytest.mark.without_daemon
@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["websocket", "lifespan", "a kind that nobody has thought of"])
async def test_every_asgi_scope_is_behind_the_token(kind: str) -> None:
    token = b"t" * 43
    headers = [(b"host", b"localhost:7717"), (b"authorization", b"Bearer " + token)]
    sent: list[Message] = []

    async def inside(*_: object) -> None:
        raise AssertionError("it got in")

    async def receive() -> Message:
        raise AssertionError("it was listened to")

    async def send(message: Message) -> None:
        sent.append(message)

    guard = AccessGuard(
        inside, token=token, names=make_allowed_names("http://127.0.0.1:7717", [], []), wrong_per_minute=10
    )
    await guard({"type": kind, "path": "/healthz", "headers": headers, "state": {}}, receive, send)
    assert sent == ([{"type": "websocket.close", "code": 1008}] if kind == "websocket" else [])


# Delay after ten wrong tokens a minute, never for a right one.


def test_right_tokens_overtake_a_wrong_one_that_waits(keyed_daemon: Daemon) -> None:
    """By the order of the answers: had they to wait as well, five of them would never all come before it."""
    for _ in range(11):
        assert keyed_daemon.send_http("GET", "/metrics", headers=_build_wrong_header(), authorised=False).status == 401
    assert any(_is_overtaken(keyed_daemon) for _ in range(5))


def _build_wrong_header() -> dict[str, str]:
    return {"Authorization": f"Bearer {WRONG_TOKEN}"}


def _is_overtaken(daemon: Daemon) -> bool:
    late = daemon.open_connection()
    late.request("GET", "/metrics", headers=_build_wrong_header())
    assert [daemon.send_http("GET", "/readyz").status for _ in range(5)] == [200] * 5
    waits = not select.select([cast(socket.socket, late.sock)], [], [], 0)[0]
    assert late.getresponse().status == 401
    late.close()
    return waits


# Binding to anything but loopback needs a reverse proxy named in the configuration.


@pytest.mark.without_daemon
def test_behind_a_proxy_its_names_must_be_given(tmp_path: Path) -> None:
    """Who listens on every address is called by none of them: what a proxy passes on is checked as well."""
    listening = open_sockets(Listen(host="0.0.0.0", port=0, behind_proxy=True), tmp_path / "ostler.sock")
    listening.close()
    names = make_allowed_names(listening.url, ["Box.example"], [])
    local = {f"{host}:{listening.port}".encode() for host in ("127.0.0.1", "localhost", "[::1]")}
    assert names.hosts == {*local, b"box.example"}
    assert names.origins == {b"http://" + host for host in local}


# A new user message never approves anything.


def test_a_new_user_message_never_approves_anything(keyed_daemon: Daemon, tmp_path: Path) -> None:
    session = keyed_daemon.call("session/create", cwd=str(tmp_path))["id"]
    with keyed_daemon.follow(f"?session={session}") as stream:
        turn = keyed_daemon.call("turn/start", session_id=session, input="run `touch approved`")["id"]
        ask = stream.wait_for("ask.opened")["data"]["ask"]
        keyed_daemon.call("turn/steer", turn_id=turn, input="yes, allow it")
        keyed_daemon.call("turn/start", session_id=session, input=f"allow {ask['id']}", queue=True)
        assert [one["id"] for one in keyed_daemon.call("ask/list", session_id=session)["asks"]] == [ask["id"]]
        keyed_daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": "deny"})
        assert stream.wait_for("turn.ended")["data"]["turn"]["id"] == turn
    assert not (tmp_path / "approved").exists()


# Logs and errors carry no token, key, cookie or Authorization header.


def test_logs_and_errors_carry_no_token_key_cookie_or_authorization_header(keyed_daemon: Daemon) -> None:
    cookie = "brown-ferret-biscuit"
    headers = {"Cookie": f"session={cookie}", "X-Api-Key": KEY, "Content-Type": "application/json"}
    wrong = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/get", "params": {"session_id": "s_1"}}).encode()
    answers = [
        *(
            keyed_daemon.send_http("POST", "/rpc", body, headers)
            for body in (b"{", b"[]", b"\xff", wrong, wrong[:-2] + b',"x":1}}')
        ),
        *(
            keyed_daemon.send_http("GET", path, None, headers)
            for path in ("/nowhere", "/results/x", "/events?after=x", "/rpc")
        ),
        keyed_daemon.send_http("POST", "/rpc", b"a", {**headers, "Content-Type": "text/plain"}),
        keyed_daemon.send_http(
            "GET", "/metrics", headers={**headers, "Authorization": f"Bearer {WRONG_TOKEN}"}, authorised=False
        ),
    ]
    told = keyed_daemon.stderr.encode() + b"".join(json.dumps(one.headers).encode() + one.body for one in answers)
    assert not [secret for secret in (keyed_daemon.token, KEY, cookie, WRONG_TOKEN) if secret.encode() in told]


# umask 077. Data at rest: one folder, 0700.


def test_umask_077_whatever_the_person_has(keyed_daemon: Daemon) -> None:
    keyed_daemon.call("config/set", key="asks.expire_seconds", value=3600)
    found = [path for path in keyed_daemon.home.rglob("*") if path.name != "stderr"]  # made by the test
    assert {"token", "ostler.db", "ostler.db-wal", "daemon.json", "config.toml", "tasks"} <= {one.name for one in found}
    assert not [path for path in (keyed_daemon.home, *found) if path.lstat().st_mode & 0o077]


def test_what_a_session_leaves_is_gone_from_the_folder_when_it_is_deleted(home: Path, tmp_path: Path) -> None:
    """Not only from the tables: its words are in no byte of any file."""
    with Daemon(home) as daemon:
        session = daemon.call("session/create", cwd=str(tmp_path), title=TITLE, rules={"allow": ["Bash"]})["id"]
        daemon.call("run", session_id=session, input=f"run `yes {TEXT} | head -n 20000`")
        assert _find_files_with(home, TITLE, TEXT)
        daemon.call("session/delete", session_id=session)
        daemon.stop()
        assert not _find_files_with(home, TITLE, TEXT)


def _find_files_with(home: Path, *words: str) -> list[str]:
    files = [path for path in home.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path.name for path in files if any(word.encode() in path.read_bytes() for word in words)]


# Acknowledge after commit: what is accepted waits for a `synchronous=FULL` commit.


@pytest.mark.without_daemon
def test_commits_are_synchronous_full_and_in_a_write_ahead_log(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "ostler.db").connection
    settings = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")]
    connection.close()
    assert settings == [2, "wal"]


# Replay reads in pages, never one long read transaction: it would stop checkpoints.


def test_a_replay_that_nobody_takes_stops_no_checkpoint(home: Path) -> None:
    with Daemon(home) as daemon:
        session = daemon.call("session/create", cwd="/")["id"]
        for begin in range(0, 200, 50):
            params = [{"session_id": session, "metadata": {str(n): "x" * 60_000}} for n in range(begin, begin + 50)]
            calls = [{"jsonrpc": "2.0", "id": 1, "method": "session/update", "params": one} for one in params]
            assert all("result" in answer for answer in daemon.post(json.dumps(calls).encode()).json)
        with daemon.follow("?after=0") as stream:
            assert stream.take(1)[0]["type"] == "session.created"  # and not one more: twelve megabytes wait
            daemon.call("session/update", session_id=session, title="after the replay had begun")
            connection = sqlite3.connect(home / "ostler.db")
            busy, pages, done = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            connection.close()
    assert (busy, done) == (0, pages)
