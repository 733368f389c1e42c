"""The lifecycle of the daemon: one per home, found by its file, stopped by a signal, set up by its configuration."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, wait_until
from tests.support.inprocess import InProcessDaemon

MODULE = [sys.executable, "-P", "-m", "ostler.server"]


@pytest.fixture
def daemon(home: Path) -> Iterator[Daemon]:
    """A daemon of its own, started as people start it."""
    with Daemon(home, cold=True) as running:
        yield running


def expect_failed_start(home: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    command = [*MODULE, "--home", str(home), "--port", "0", *arguments]
    environ = {**os.environ, **(environment or {})}
    failed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=environ)
    assert failed.returncode == 1, failed
    assert failed.stdout == ""
    assert "Traceback" not in failed.stderr
    assert failed.stderr.count("\n") == 1, failed.stderr
    return failed.stderr


def test_its_file_says_where_it_is(daemon: Daemon) -> None:
    found = json.loads((daemon.home / "daemon.json").read_text())
    assert set(found) == {"pid", "version", "url", "socket", "started"}
    assert (found["pid"], found["url"]) == (daemon.pid, daemon.url)
    assert daemon.send_http("GET", "/readyz", unix=True).status == 200


def test_there_is_one_daemon_per_home(daemon: Daemon) -> None:
    said = expect_failed_start(daemon.home)
    assert f"pid {daemon.pid}" in said
    assert daemon.call("server/info")["pid"] == daemon.pid


def test_what_a_dead_daemon_left_behind_is_taken_over(home: Path) -> None:
    with Daemon(home, cold=True) as daemon:
        daemon.kill()
        assert (home / "daemon.json").exists()
        assert (home / "ostler.sock").exists()
        daemon.start()
        assert json.loads((home / "daemon.json").read_text())["pid"] == daemon.pid
        assert daemon.send_http("GET", "/readyz", unix=True).status == 200


def test_a_taken_port_that_was_asked_for_is_an_error(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        daemon = Daemon(home, ["--port", str(port)], cold=True)
        daemon.spawn()
        assert daemon.wait() == 1
        assert f"Port {port} of 127.0.0.1 is taken by another program." in daemon.stderr
        assert not (home / "daemon.json").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_with_readers_attached(home: Path, number: signal.Signals) -> None:
    with Daemon(home, cold=True) as daemon:
        streams = [daemon.follow() for _ in range(5)]
        daemon.call("session/create", cwd="/")
        before = time.monotonic()
        daemon.signal(number)
        assert daemon.wait() == 0
        assert time.monotonic() - before < 10
        for stream in streams:
            assert [event["type"] for event in stream.read_events()] == ["session.created"]  # each ended properly
            stream.close()
        assert {path.name for path in home.iterdir()} == {
            "daemon.lock",
            "daemon.pid",
            "daemon.port",
            "logs",
            "ostler.db",
            "stderr",
            "tasks",
            "token",
        }


def test_a_call_can_stop_it(home: Path) -> None:
    with Daemon(home, cold=True) as daemon, daemon.follow() as stream:
        assert daemon.call("server/shutdown") == {"pid": daemon.pid, "stopping": True}
        assert daemon.wait() == 0
        assert list(stream.read_events()) == []


def test_a_second_signal_forces(home: Path) -> None:
    """A client that has sent half of a request keeps the first stop waiting."""
    with Daemon(home, cold=True) as daemon, socket.create_connection(("127.0.0.1", daemon.port)) as half:
        head = f"POST /rpc HTTP/1.1\r\nHost: localhost:{daemon.port}\r\nContent-Type: application/json\r\n"
        half.sendall(f"{head}Authorization: Bearer {daemon.token}\r\nContent-Length: 100\r\n\r\n{{".encode())
        daemon.call("server/info")
        daemon.signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in daemon.stderr)
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 1
        assert "forced" in daemon.stderr


def test_metrics_are_prometheus(daemon: Daemon) -> None:
    daemon.call("session/create", cwd="/")
    daemon.expect_error("session/get", session_id="s_none")
    daemon.expect_error("no/such/method")
    with daemon.follow():
        text = daemon.send_http("GET", "/metrics").body.decode()
    for line in (
        'ostler_calls_total{method="session/create",outcome="ok"} 1.0',
        'ostler_calls_total{method="session/get",outcome="session_not_found"} 1.0',
        'ostler_calls_total{method="unknown",outcome="-32601"} 1.0',
        "ostler_readers 1.0",
        "ostler_cursor 1.0",
        "ostler_read_only 0.0",
        'ostler_call_seconds_bucket{le="+Inf",method="session/create"} 1.0',
    ):
        assert line in text


def test_stats_count_what_happened(daemon: Daemon) -> None:
    session_id = daemon.call("session/create", cwd="/")["id"]
    daemon.call("session/update", session_id=session_id, title="x")
    stats = daemon.call("server/stats")
    assert (stats["sessions"], stats["events"], stats["cursor"]) == (1, 2, 2)
    assert stats["rss_bytes"] > 10_000_000
    assert stats["database_bytes"] > 0
    assert stats["writes"] >= 2


def test_the_protocol_describes_itself(shared_daemon: Daemon) -> None:
    document = shared_daemon.call("rpc.discover")
    assert shared_daemon.send_http("GET", "/openrpc.json").json == document
    assert document["servers"][0]["url"] == f"http://127.0.0.1:{shared_daemon.port}/rpc"
    described = {method["name"] for method in document["methods"]}
    assert described == set(
        shared_daemon.call("initialize", client={"name": "t", "version": "1"})["capabilities"]["methods"]
    )


# Configuration.


def test_settings_come_from_flag_environment_file_and_default_in_that_order(home: Path) -> None:
    home.mkdir(mode=0o700)
    config = 'model = "from-file"\n[limits]\nreaders = 10\nconnections = 100\n[retention]\nevents_days = 3\n'
    (home / "config.toml").write_text(config)
    environment = {"OSTLER_MODEL": "from-environment", "OSTLER_LIMITS__READERS": "20"}
    with Daemon(home, ["--model", "from-flag"], environment, cold=True) as daemon:
        found = {
            key: daemon.call("config/get", key=key) for key in ("model", "limits.readers", "retention.events_days")
        }
        assert {key: (one["value"], one["source"]) for key, one in found.items()} == {
            "model": ("from-flag", "flag"),
            "limits.readers": (20, "environment"),
            "retention.events_days": (3, "file"),
        }
        assert daemon.call("config/get", key="log.level")["source"] == "default"
        assert daemon.call("config/get")["value"]["limits"]["connections"] == 100
        assert daemon.call("session/create", cwd="/")["model"] == "from-flag"


def test_a_changed_setting_is_written_beside_the_persons_comments_and_told(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("# mine\n[limits]\nreaders = 10 # enough\n")
    with Daemon(home, cold=True) as daemon, daemon.follow() as stream:
        changed = daemon.call("config/set", key="limits.readers", value=1)
        assert changed == {"key": "limits.readers", "value": 1, "previous": 10, "applies": "now"}
        assert stream.take(1)[0]["data"] == {"key": "limits.readers", "value": 1, "applies": "now"}
        assert daemon.send_http("GET", "/events").status == 503  # in force at once
        assert (home / "config.toml").read_text() == "# mine\n[limits]\nreaders = 1 # enough\n"
        assert daemon.call("config/set", key="listen.port", value=7000)["applies"] == "restart"
        assert daemon.call("config/set", key="limits.readers", value=None)["value"] == 256
        daemon.stop()
        daemon.start()
        assert daemon.call("config/get", key="limits.readers")["source"] == "default"


@pytest.mark.parametrize(
    ("key", "value"), [("limits.readers", 0), ("limits.readers", "many"), ("no.such", 1), ("limits", {}), ("", 1)]
)
def test_a_wrong_setting_is_refused_and_changes_nothing(shared_daemon: Daemon, key: str, value: object) -> None:
    assert shared_daemon.expect_error("config/set", key=key, value=value)["code"] == -32602
    assert not (shared_daemon.home / "config.toml").exists()


def test_a_wrong_setting_is_refused_also_where_a_flag_hides_it(daemon: Daemon) -> None:
    assert daemon.call("config/get", key="listen.port")["source"] == "flag"
    assert daemon.expect_error("config/set", key="listen.port", value="many")["code"] == -32602
    assert not (daemon.home / "config.toml").exists()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("model = \n", "line 1, column 9"),
        ("[limits]\nraeders = 5\n", "did you mean 'limits.readers'?"),
        ("[limits]\nreaders = 0\n", "limits.readers"),
        ("[listen]\nallow_hosts = 5\n", "listen.allow_hosts"),
    ],
)
def test_a_broken_configuration_stops_the_start_and_says_where(home: Path, config: str, said: str) -> None:
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(config)
    message = expect_failed_start(home)
    assert str(home / "config.toml") in message
    assert said in message


def test_a_broken_variable_is_named(home: Path) -> None:
    assert "OSTLER_LIMITS__READERS" in expect_failed_start(home, environment={"OSTLER_LIMITS__READERS": "lots"})


def test_a_home_that_others_can_read_is_refused(home: Path) -> None:
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    assert f"chmod 700 {home}" in expect_failed_start(home)


def test_the_model_is_rehearsal_without_a_key(home: Path) -> None:
    with Daemon(home, cold=True) as daemon:
        assert daemon.call("server/info")["provider"] == "rehearsal"
        daemon.stop()
        daemon.environment = {"ANTHROPIC_API_KEY": "sk-test"}
        daemon.start()
        info = daemon.call("server/info")
        assert (info["model"], info["provider"]) == ("claude-sonnet-5", "anthropic")


def test_a_home_with_a_long_name_still_has_a_socket(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 20) / ("name" * 20)
    with Daemon(home, cold=True) as daemon:
        assert len(daemon.socket_path) < 108
        assert daemon.send_http("GET", "/readyz", unix=True).status == 200


def test_a_log_file_is_rotated(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "ostler.log"
    environment = {"OSTLER_LOG__MAX_BYTES": "65536", "OSTLER_LOG__LEVEL": "debug"}
    log.write_bytes(b"x" * 65_500)
    with Daemon(home, ["--log-file", str(log)], environment, cold=True) as daemon:
        wait_until((tmp_path / "ostler.log.1").exists)
        assert daemon.stderr == ""
    assert log.stat().st_size < 65_536


def test_a_file_in_the_place_of_the_socket_is_left_alone(home: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("keep me")
    assert str(precious) in expect_failed_start(home, "--socket", str(precious))
    assert precious.read_text() == "keep me"


def test_a_socket_that_another_daemon_has_is_left_to_it(daemon: Daemon, tmp_path: Path) -> None:
    assert "already" in expect_failed_start(tmp_path / "other", "--socket", daemon.socket_path)
    assert daemon.send_http("GET", "/readyz", unix=True).status == 200


def test_another_loopback_address_is_its_own_name(home: Path) -> None:
    import http.client

    with Daemon(home, ["--host", "127.0.0.2"], cold=True) as daemon:
        connection = http.client.HTTPConnection("127.0.0.2", daemon.port)
        connection.request("GET", "/readyz")
        assert connection.getresponse().status == 200
        connection.close()


def test_a_configuration_that_was_broken_since_the_start_is_named(daemon: Daemon) -> None:
    for broken in ("limits = 5\n", "model = \n"):
        (daemon.home / "config.toml").write_text(broken)
        error = daemon.expect_error("config/set", key="limits.readers", value=5)
        assert error["data"]["code"] == "conflict"
        assert "config.toml" in error["message"]
        assert (daemon.home / "config.toml").read_text() == broken


def test_a_daemon_that_cannot_write_changes_no_setting(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        daemon.running.store.writer.turn_read_only("for this test")
        assert daemon.expect_error("config/set", key="limits.readers", value=7)["data"]["code"] == "read_only"
        assert daemon.call("config/get", key="limits.readers")["value"] == 256
        assert not (home / "config.toml").exists()
