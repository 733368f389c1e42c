"""`serve`, `start`, `stop`, `status`, `logs`: the life of the daemon from the command line."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon, wait_until


@pytest.fixture
def cli(cli: Cli) -> Cli:
    """The script itself: how it starts and ends is what these tests are about."""
    return replace(cli, cold=True)


@pytest.fixture
def daemon_cli(daemon_cli: Cli) -> Cli:
    return replace(daemon_cli, cold=True)


def read_daemon_file(home: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((home / "daemon.json").read_text())
    return found


def test_start_says_where_the_daemon_is_and_stop_ends_it(cli: Cli) -> None:
    started = cli.run("start", "--port", "0")
    assert (started.code, started.err) == (0, "")
    file = read_daemon_file(cli.home)
    assert started.out == f"Started: {file['url']} (pid {file['pid']})\n"
    assert cli.run("status").code == 0
    stopped = cli.run("stop")
    assert (stopped.code, stopped.out) == (0, f"Stopped (pid {file['pid']}).\n")
    assert not (cli.home / "daemon.json").exists()


def test_a_second_start_finds_the_first(cli: Cli) -> None:
    cli.run("start", "--port", "0")
    again = cli.run("start")
    assert again.code == 0
    assert again.out.startswith("Already running: http://127.0.0.1:")


def test_starts_at_the_same_moment_start_one_daemon(cli: Cli) -> None:
    processes = [cli.spawn("start", "--port", "0") for _ in range(3)]
    printed = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], printed
    assert sorted(out.split(":")[0] for out, _ in printed) == ["Already running", "Already running", "Started"]


def test_start_passes_its_options_on(cli: Cli) -> None:
    path = cli.home.parent / "other.sock"
    cli.run("start", "--port", "0", "--socket", str(path), "--model", "some-model", "--allow-host", "box.local")
    assert read_daemon_file(cli.home)["socket"] == str(path)
    assert cli.run("config", "get", "model").out == "some-model\n"
    assert cli.run("config", "get", "listen.allow_hosts").out == '["box.local"]\n'


def test_a_start_that_fails_shows_the_log(cli: Cli) -> None:
    cli.home.mkdir(mode=0o700)
    (cli.home / "config.toml").write_text("[listen\n")
    failed = cli.run("start")
    assert failed.code == 1
    assert "config.toml is not TOML" in failed.err
    assert "ended with exit code 1 before it was ready" in failed.err.splitlines()[-1]
    assert "ostler doctor" in failed.err.splitlines()[-1]
    assert "Traceback" not in failed.err


@pytest.mark.parametrize("command", [["run", "hello"], ["chat"], ["sessions"]])
def test_every_command_says_why_the_daemon_did_not_start(cli: Cli, command: list[str]) -> None:
    cli.home.mkdir(mode=0o700)
    (cli.home / "config.toml").write_text("[listen]\nprot = 1\n")
    failed = cli.run(*command)
    assert failed.code == 1
    [line] = failed.err.splitlines()
    assert "The daemon did not start: " in line
    assert "there is no setting 'listen.prot'; did you mean 'listen.port'? The daemon ended with exit code 1" in line


def test_a_headless_run_has_the_reason_in_its_result(cli: Cli) -> None:
    cli.home.mkdir(mode=0o700)
    (cli.home / "token").write_text("short")
    (cli.home / "token").chmod(0o644)
    failed = cli.run("run", "hello", "--format", "json")
    assert failed.code == 1
    assert "token is open to others" in failed.json["error"]["message"]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield int(other.getsockname()[1])


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(cli: Cli, taken_port: int) -> None:
    failed = cli.run("start", "--port", str(taken_port))
    assert failed.code == 1
    assert f"Port {taken_port} of 127.0.0.1 is taken by another program. Choose another one with --port" in failed.err
    (cli.home / "config.toml").write_text(f"[listen]\nport = {taken_port}\n")
    assert f"Port {taken_port} of 127.0.0.1 is taken" in cli.run("start").err
    assert cli.run("start", "--port", "0").code == 0


def test_the_last_port_of_a_home_is_tried_first_and_any_other_is_taken_where_it_is_not_free(cli: Cli) -> None:
    def start(*arguments: str) -> int:
        assert cli.run("start", *arguments).code == 0
        url = str(read_daemon_file(cli.home)["url"])
        cli.run("stop")
        return int(url.rsplit(":", 1)[1])

    first = start("--port", "0")
    assert start() == first
    with socket.create_server(("127.0.0.1", first)):
        assert start() != first
    (cli.home / "daemon.port").write_text("no port\n")
    assert start() > 0


def test_a_home_that_cannot_be_a_folder_is_said_in_one_line(cli: Cli) -> None:
    cli.home.write_text("a file")
    failed = cli.run("start")
    assert failed.code == 1
    assert len(failed.err.splitlines()) == 1
    assert "ostler doctor" in failed.err


def test_the_background_daemon_does_not_hold_the_terminal_or_the_folder(cli: Cli) -> None:
    cli.run("start", "--port", "0")
    pid = int(str(read_daemon_file(cli.home)["pid"]))
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert os.readlink(f"/proc/{pid}/fd/2") == str(cli.home / "logs" / "ostler.log")


def test_nothing_to_stop_is_no_failure(cli: Cli) -> None:
    stopped = cli.run("stop")
    assert (stopped.code, stopped.out) == (0, "No daemon runs.\n")


def test_stop_ends_a_daemon_that_does_not_take_calls(daemon: Daemon) -> None:
    """Its socket is gone and its token is another one: what remains is the signal."""
    os.unlink(daemon.socket_path)
    (daemon.home / "token").write_text("x" * 43)
    # The fixture's process is our child, so somebody has to take notice of its end.
    waiter = threading.Thread(target=daemon.wait)
    waiter.start()
    assert Cli(daemon.home, cold=True).run("stop").out == f"Stopped (pid {daemon.pid}).\n"
    waiter.join()
    assert daemon.process is not None
    assert daemon.process.returncode == 0


def test_serve_becomes_the_daemon(cli: Cli) -> None:
    process = cli.spawn("serve", "--port", "0")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert re.fullmatch(r"ostler ready http://127\.0\.0\.1:\d+\n", line)
    assert read_daemon_file(cli.home)["pid"] == process.pid
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=15)
    assert process.returncode == 0


def test_serve_takes_its_home_before_and_after_the_command(cli: Cli, tmp_path: Path) -> None:
    for number, arguments in enumerate([["--home", "{}", "serve"], ["serve", "--home", "{}"]]):
        home = tmp_path / str(number)
        words = [word.format(home) for word in arguments]
        process = cli.spawn(*words, "--port", "0", "--log-file", str(tmp_path / "log"))
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ostler ready")
        assert (home / "daemon.json").exists()
        process.terminate()
        assert process.communicate(timeout=15)[1] == ""


def test_status_tells_what_there_is_to_know(daemon_cli: Cli, daemon: Daemon) -> None:
    told = daemon_cli.run("status")
    assert told.code == 0
    first, *rest = told.out.splitlines()
    assert first.startswith("ostler ")
    facts = {line.split()[0]: line.split(maxsplit=1)[1] for line in rest}
    assert facts["pid"] == str(daemon.pid)
    assert facts["url"] == daemon.url
    assert facts["socket"] == daemon.socket_path
    assert facts["home"] == str(daemon.home)
    assert facts["ready"] == "yes"
    assert facts["model"] == "rehearsal"
    assert told.err.startswith("The model is `rehearsal`")


def test_status_with_a_real_model_says_which(home: Path) -> None:
    with Daemon(home, environment={"ANTHROPIC_API_KEY": "sk-test"}):
        told = Cli(home).run("status")
    assert (told.code, told.err) == (0, "")
    assert "  model   claude-" in told.out


def test_status_as_json(daemon_cli: Cli, daemon: Daemon) -> None:
    told = daemon_cli.run("status", "--format", "json").json
    assert (told["running"], told["ready"], told["read_only"], told["pid"]) == (True, True, None, daemon.pid)
    assert (told["url"], told["socket"], told["home"]) == (daemon.url, daemon.socket_path, str(daemon.home))
    assert told["uptime_ms"] >= 0
    assert (told["model"], told["provider"]) == ("rehearsal", "rehearsal")


def test_status_works_without_the_socket(daemon_cli: Cli, daemon: Daemon) -> None:
    os.unlink(daemon.socket_path)
    assert daemon_cli.run("status", "--format", "json").json["pid"] == daemon.pid


def test_status_of_nothing_is_three(cli: Cli) -> None:
    told = cli.run("status")
    assert told.code == 3
    assert "ostler start" in told.out
    assert not cli.home.exists()
    assert cli.run("status", "--format", "json").json["running"] is False


def test_status_after_a_crash_is_three(daemon_cli: Cli, daemon: Daemon) -> None:
    daemon.kill()
    told = daemon_cli.run("status")
    assert told.code == 3
    assert f"pid {daemon.pid}" in told.out
    assert daemon_cli.run("stop").out == "No daemon runs.\n"


def test_status_does_not_take_another_process_for_the_daemon(cli: Cli) -> None:
    """A pid that was given away again, and a port that somebody else has: neither is our daemon."""
    cli.home.mkdir(mode=0o700)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        said = {"pid": os.getpid(), "version": "0", "url": url, "socket": None, "started": "2001-01-01T00:00:00.000Z"}
        (cli.home / "daemon.json").write_text(json.dumps(said))
        assert cli.run("status").code == 3
        assert cli.run("stop").out == "No daemon runs.\n"
    (cli.home / "daemon.json").unlink()


@pytest.mark.parametrize("rubbish", ["", "{", "[]", '{"pid": "x"}', "null"])
def test_a_broken_daemon_file_is_no_daemon(cli: Cli, rubbish: str) -> None:
    cli.home.mkdir(mode=0o700)
    (cli.home / "daemon.json").write_text(rubbish)
    assert cli.run("status").code == 3
    (cli.home / "daemon.json").unlink()


def test_a_daemon_that_hangs_is_said_to_hang(daemon_cli: Cli, daemon: Daemon) -> None:
    daemon.signal(signal.SIGSTOP)
    try:
        told = daemon_cli.run("status")
        assert told.code == 3
        assert told.out == f"The daemon (pid {daemon.pid}) does not answer. See `ostler logs`, or `ostler stop`.\n"
        failed = daemon_cli.run("sessions")
        assert (failed.code, failed.out) == (1, "")
        assert "does not answer" in failed.err
    finally:
        daemon.signal(signal.SIGCONT)


def test_logs_show_the_last_lines(cli: Cli) -> None:
    cli.run("start", "--port", "0")
    cli.run("stop")
    log = (cli.home / "logs" / "ostler.log").read_text().splitlines()
    assert cli.run("logs").out.splitlines() == log
    assert cli.run("logs", "-n", "1").out.splitlines() == log[-1:]


def test_logs_without_a_log_say_so(cli: Cli) -> None:
    failed = cli.run("logs")
    assert failed.code == 1
    assert "There is no log yet" in failed.err


def test_followed_logs_go_on_after_a_rotation_and_end_quietly_with_ctrl_c(cli: Cli) -> None:
    log = cli.home / "logs" / "ostler.log"
    log.parent.mkdir(mode=0o700, parents=True)
    log.write_text("first\n")
    process = cli.spawn("logs", "-f")
    assert process.stdout is not None
    assert process.stdout.readline() == "first\n"
    log.rename(log.with_suffix(".log.1"))
    log.write_text("second\n")
    assert process.stdout.readline() == "second\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=15)
    assert (process.returncode, errors) == (130, "")


def test_followed_logs_wait_for_a_log_to_appear(cli: Cli) -> None:
    process = cli.spawn("logs", "--follow")
    log = cli.home / "logs" / "ostler.log"
    log.parent.mkdir(mode=0o700, parents=True)
    log.write_text("first\n")
    assert process.stdout is not None
    assert process.stdout.readline() == "first\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=15)


def test_a_reader_that_has_enough_is_no_error(cli: Cli) -> None:
    log = cli.home / "logs" / "ostler.log"
    log.parent.mkdir(mode=0o700, parents=True)
    log.write_text("a line of the log\n" * 50_000)
    process = cli.spawn("logs", "-n", "50000")
    assert process.stdout is not None
    assert process.stdout.readline() == "a line of the log\n"
    process.stdout.close()
    assert process.wait(15) == 1
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()


def test_a_terminal_sees_progress_only_while_it_waits(cli: Cli) -> None:
    shown = cli.run_in_terminal("start", "--port", "0")
    assert shown.code == 0
    assert re.search(r"Started: http://127\.0\.0\.1:\d+ \(pid \d+\)\n$", shown.out)


def test_a_daemon_of_a_killed_start_is_found_by_the_next(cli: Cli) -> None:
    process = cli.spawn("start", "--port", "0")
    wait_until((cli.home / "daemon.json").exists)
    process.kill()
    process.communicate(timeout=15)
    assert cli.run("status").code == 0


def test_help_comes_without_a_command_too(cli: Cli) -> None:
    plain = cli.run()
    assert plain.code == 0
    assert plain.out == cli.run("--help").out


def test_the_version_is_the_package_s(cli: Cli) -> None:
    from importlib.metadata import version

    assert cli.run("--version").out == f"ostler {version('ostler')}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["status", "--nonsense"], ["export"], ["schema", "nonsense"]])
def test_wrong_usage_is_one_line_and_exit_two(cli: Cli, arguments: list[str]) -> None:
    failed = cli.run(*arguments)
    assert (failed.code, failed.out) == (2, "")
    assert len(failed.err.splitlines()) == 1
    assert "--help`." in failed.err


def test_completion_knows_the_commands(cli: Cli) -> None:
    done = subprocess.run(
        ["ostler"],
        executable=str(Path(sys.executable).with_name("ostler")),
        env={
            **cli.environment,
            "_OSTLER_COMPLETE": "complete_bash",
            "COMP_WORDS": "ostler st",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == {"start", "stop", "status"}


def test_completion_is_installed_for_the_shell_that_asks(cli: Cli, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", "ostler --install-completion; echo done; exec 3<>/dev/null; . ~/.bashrc; complete -p ostler"],
        env={**cli.environment, "HOME": str(tmp_path), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "bash completion installed" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1].endswith(" ostler")
