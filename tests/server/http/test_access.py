"""Access to the HTTP server: tokens, hosts, origins, and that a stranger learns nothing."""

import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.programs import needs
from tests.support.repository import ROOT

ROUTES = [
    ("POST", "/rpc"),
    ("GET", "/events"),
    ("GET", "/openrpc.json"),
    ("GET", "/metrics"),
    ("GET", "/results/r_1"),
    ("GET", "/sessions/s_1/export"),
    ("GET", "/"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("OPTIONS", "/rpc"),
    ("TRACE", "/rpc"),
    ("GET", "/healthz/"),
    ("GET", "//healthz"),
    ("GET", "/healthz/../rpc"),
    ("GET", "/%68ealthz/x"),
]


WANTED = b"Wanted: `Authorization: Bearer TOKEN`, with the content of the file `token` in the home folder.\n"
"""Always the same: it says nothing of what is behind the door."""


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic {token}", "{token}", "bearer {token}x", "Bearer {token} x"],
)
def test_nobody_gets_in_without_the_token(
    shared_daemon: Daemon, method: str, path: str, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.format(token=shared_daemon.token)}
    answer = shared_daemon.send_http(method, path, headers=headers, authorised=False)
    assert (answer.status, answer.body) == (401, WANTED)
    assert set(answer.headers) <= {"content-type", "content-length", "connection", "date", "www-authenticate"}


def test_the_token_is_never_taken_from_the_url(shared_daemon: Daemon) -> None:
    for query in ("token", "access_token", "authorization", "key"):
        answer = shared_daemon.send_http("GET", f"/events?{query}={shared_daemon.token}", authorised=False)
        assert answer.status == 401


def test_two_authorization_headers_are_none(shared_daemon: Daemon) -> None:
    with socket.create_connection(("127.0.0.1", shared_daemon.port)) as raw:
        token = f"Authorization: Bearer {shared_daemon.token}\r\n"
        raw.sendall(f"GET /metrics HTTP/1.1\r\nHost: localhost:{shared_daemon.port}\r\n{token}{token}\r\n".encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_the_probes_are_open_and_tell_a_stranger_nothing(shared_daemon: Daemon, path: str) -> None:
    answer = shared_daemon.send_http("GET", path, authorised=False)
    assert answer.status == 200
    assert set(answer.json) <= {"status", "ready", "read_only"}
    assert shared_daemon.send_http("POST", path, authorised=False).status == 405


def test_readyz_tells_its_owner_which_daemon_it_is(shared_daemon: Daemon) -> None:
    assert shared_daemon.send_http("GET", "/readyz").json["pid"] == shared_daemon.pid


HOSTILE_HOSTS = [
    "evil.example",
    "127.0.0.1",
    "localhost",
    "127.0.0.1:1",
    "127.0.0.1.evil.example:{port}",
    "localhost:{port}.evil.example",
    "evil.example:{port}",
    "127.0.0.2:{port}",
    "0.0.0.0:{port}",
    "127.1:{port}",
    "2130706433:{port}",
    "[::]:{port}",
    "user@localhost:{port}",
    "",
]


@pytest.mark.parametrize("host", HOSTILE_HOSTS)
@pytest.mark.parametrize("path", ["/rpc", "/healthz", "/events"])
def test_another_host_is_refused_even_with_the_token(shared_daemon: Daemon, host: str, path: str) -> None:
    answer = shared_daemon.send_http("GET", path, headers={"Host": host.format(port=shared_daemon.port)})
    assert (answer.status, answer.body) == (403, b"")


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost:{port}", "[::1]:{port}"])
def test_its_own_names_are_accepted(shared_daemon: Daemon, host: str) -> None:
    assert (
        shared_daemon.send_http("GET", "/readyz", headers={"Host": host.format(port=shared_daemon.port)}).status == 200
    )


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "https://evil.example",
        "http://localhost",
        "https://localhost:{port}",
        "http://localhost:1",
        "file://",
        "",
    ],
)
def test_another_origin_is_refused_even_with_the_token(shared_daemon: Daemon, origin: str) -> None:
    answer = shared_daemon.send_http("GET", "/readyz", headers={"Origin": origin.format(port=shared_daemon.port)})
    assert (answer.status, answer.body) == (403, b"")


def test_no_cors_header_is_ever_sent(shared_daemon: Daemon) -> None:
    own = {"Origin": f"http://localhost:{shared_daemon.port}"}
    preflight = {**own, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for answer in (
        shared_daemon.send_http("GET", "/readyz", headers=own),
        shared_daemon.send_http("OPTIONS", "/rpc", headers=preflight, authorised=False),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_names_and_origins_can_be_added(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('[listen]\nallow_origins = ["https://ide.example"]\n')
    with Daemon(home, ["--allow-host", "box.example:8443"]) as daemon:
        assert daemon.send_http("GET", "/readyz", headers={"Host": "box.example:8443"}).status == 200
        assert daemon.send_http("GET", "/readyz", headers={"Origin": "https://ide.example"}).status == 200
        assert daemon.send_http("GET", "/readyz", headers={"Host": "box.example"}).status == 403


def test_a_websocket_is_not_spoken(shared_daemon: Daemon) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    assert shared_daemon.send_http("GET", "/events", headers=headers, authorised=False).status == 401


def test_wrong_tokens_are_answered_late_and_right_ones_never(daemon: Daemon) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    for _ in range(10):
        assert daemon.send_http("GET", "/metrics", headers=wrong, authorised=False).status == 401
    before = time.monotonic()
    assert daemon.send_http("GET", "/metrics", headers=wrong, authorised=False).status == 401
    late = time.monotonic() - before
    before = time.monotonic()
    assert daemon.send_http("GET", "/readyz").status == 200
    assert daemon.send_http("GET", "/metrics", authorised=False).status == 401  # none at all is not a wrong one
    assert late >= 0.9
    assert time.monotonic() - before < late + 0.5


def test_a_peer_of_the_same_user_needs_no_token_on_the_socket(shared_daemon: Daemon) -> None:
    assert shared_daemon.send_http("GET", "/metrics", unix=True, authorised=False).status == 200


def test_a_wrong_token_on_the_socket_is_wrong(shared_daemon: Daemon) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    assert shared_daemon.send_http("GET", "/metrics", headers=wrong, unix=True, authorised=False).status == 401


@pytest.mark.parametrize("host", ["evil.example", "localhost:80", "127.0.0.1"])
def test_the_socket_has_one_name(shared_daemon: Daemon, host: str) -> None:
    assert shared_daemon.send_http("GET", "/readyz", headers={"Host": host}, unix=True).status == 403


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_user_does_not_get_in_through_the_socket(shared_daemon: Daemon, tmp_path: Path) -> None:
    """Even one who can open it: the kernel says who it is."""
    probe = (
        "import os, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "os.chdir(os.path.dirname(sys.argv[1]))\n"
        "os.chmod(os.path.basename(sys.argv[1]), 0o666)\n"
        "os.setuid(65534)\n"
        "s.connect(os.path.basename(sys.argv[1]))\n"
        "s.sendall(b'GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n"
        "print(s.recv(12).decode())\n"
    )
    command = [sys.executable, "-c", probe, shared_daemon.socket_path]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    os.chmod(shared_daemon.socket_path, 0o600)
    assert "HTTP/1.1 401" in said.stdout or "PermissionError" in said.stderr


@needs("curl")
def test_a_child_of_the_daemon_needs_the_token(home: Path) -> None:
    """The daemon here is this process, so that everything it starts is a child of it."""
    from tests.support.inprocess import InProcessDaemon

    with InProcessDaemon(home) as daemon:
        command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", daemon.socket_path]
        child = subprocess.run([*command, "http://localhost/metrics"], capture_output=True, text=True, check=True)
        grandchild = subprocess.run(
            ["sh", "-c", '"$@"; true', "sh", *command, "http://localhost/metrics"],
            capture_output=True,
            text=True,
            check=True,
        )
        with_token = ["-H", f"Authorization: Bearer {daemon.token}", "http://localhost/metrics"]
        trusted = subprocess.run([*command, *with_token], capture_output=True, text=True, check=True)
    assert (child.stdout, grandchild.stdout, trusted.stdout) == ("401", "401", "200")


ORPHAN = """
import subprocess, sys
from pathlib import Path
from ostler.server.daemon.lifecycle import harden_process
from tests.support.daemon import wait_until
from tests.support.inprocess import InProcessDaemon

harden_process()
with InProcessDaemon(Path(sys.argv[1])) as daemon:
    out = Path(sys.argv[1]) / "out"
    curl = f"curl -s -o /dev/null -w %{{http_code}} --unix-socket {daemon.socket_path} http://localhost/metrics"
    # The shell in the middle is gone before the one that asks is even awake.
    subprocess.run(["sh", "-c", f"(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; {curl} > {out}) &"], check=True)
    wait_until(lambda: out.exists() and out.read_text())
    print(out.read_text())
"""


@needs("curl")
def test_a_child_of_the_daemon_needs_the_token_also_when_its_parent_has_ended(home: Path) -> None:
    root = ROOT
    said = subprocess.run(
        [sys.executable, "-c", ORPHAN, str(home)], capture_output=True, text=True, check=True, cwd=root, timeout=60
    )
    assert "401" in said.stdout.splitlines()


def test_what_it_keeps_is_its_own(shared_daemon: Daemon) -> None:
    assert stat.S_IMODE(shared_daemon.home.stat().st_mode) == 0o700
    for path in shared_daemon.home.iterdir():
        if path.name != "stderr":  # made by the test
            assert path.lstat().st_mode & 0o077 == 0, path


def test_a_token_that_others_can_read_is_refused(home: Path) -> None:
    home.mkdir(mode=0o700)
    token = home / "token"
    token.write_text("x" * 43)
    token.chmod(0o640)
    command = [sys.executable, "-P", "-m", "ostler.server", "--home", str(home), "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode == 1
    assert f"chmod 600 {token}" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_token_stays_the_same_over_a_restart(home: Path) -> None:
    with Daemon(home) as daemon:
        first = daemon.token
        assert len(first) >= 40
        daemon.stop()
        daemon.start()
        assert daemon.token == first


def test_neither_token_nor_authorization_header_is_ever_logged(home: Path) -> None:
    with Daemon(home, environment={"OSTLER_LOG__LEVEL": "debug", "ANTHROPIC_API_KEY": "sk-very-secret"}) as daemon:
        daemon.call("session/create", cwd="/")
        daemon.send_http("GET", "/metrics", headers={"Authorization": "Bearer wrong-but-private"}, authorised=False)
        daemon.send_http("POST", "/rpc", b"{", {"Content-Type": "application/json"})
        daemon.stop()
        log = daemon.stderr
        for secret in (daemon.token, "wrong-but-private", "sk-very-secret"):
            assert secret not in log


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "127.0.0.1.evil"])
def test_an_address_that_others_can_reach_needs_a_word_in_the_configuration(home: Path, host: str) -> None:
    command = [sys.executable, "-P", "-m", "ostler.server", "--home", str(home), "--port", "0", "--host", host]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode == 1
    assert "ostler:" in refused.stderr
    assert "Traceback" not in refused.stderr
