"""`ostler run` when it is stopped, waits for people, or loses its daemon."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import OSTLER, Cli
from tests.support.daemon import Daemon
from tests.support.forked import fork_command

LONG_COMMAND = "tail -f README.md"


def start_run(cli: Cli, project: Path, prompt: str, *arguments: str) -> subprocess.Popen[str]:
    return cli.spawn("run", prompt, "--format", "stream-json", *arguments, cwd=project)


def read_lines_until(process: subprocess.Popen[str], kind: str) -> list[dict[str, Any]]:
    assert process.stdout is not None
    found: list[dict[str, Any]] = []
    for line in process.stdout:
        found.append(json.loads(line))
        if found[-1]["type"] == kind:
            return found
    raise AssertionError(f"no {kind} before the end: {found} {process.stderr and process.stderr.read()}")


def wait_for_exit(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def start_long_run(rehearsal_cli: Cli, project: Path) -> subprocess.Popen[str]:
    """A turn with a command that does not end by itself, just begun."""
    process = start_run(rehearsal_cli, project, f"run {LONG_COMMAND}", "--allow", f"Bash({LONG_COMMAND})")
    read_lines_until(process, "tool.started")
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_turn_and_waits_for_its_end(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path, number: signal.Signals
) -> None:
    process = start_long_run(rehearsal_cli, project)
    process.send_signal(number)
    result = read_lines_until(process, "result")[-1]
    code, errors = wait_for_exit(process)
    assert (code, result["turn"]["reason"]) == (130, "interrupted"), errors
    assert rehearsal_daemon.call("session/get", session_id=result["session_id"])["status"] == "idle"


def test_a_second_signal_leaves_at_once_and_still_prints_the_result(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    process = start_long_run(rehearsal_cli, project)
    rehearsal_daemon.signal(signal.SIGSTOP)  # so that nobody can tell it that the turn has ended
    try:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while "once more" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        result = read_lines_until(process, "result")[-1]
        assert wait_for_exit(process)[0] == 130
        assert result["error"]["code"] == "interrupted"
        assert result["turn"]["status"] == "running"
    finally:
        rehearsal_daemon.signal(signal.SIGCONT)


def test_a_closed_terminal_stops_the_turn(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    ours, theirs = pty.openpty()
    arguments = ["run", f"run {LONG_COMMAND}", "--allow", f"Bash({LONG_COMMAND})"]
    with rehearsal_daemon.follow("?after=0") as stream:
        process = fork_command(arguments, rehearsal_cli.environment, (theirs, theirs, theirs), project, terminal=True)
        turn_id = stream.wait_for("tool.started")["turn_id"]
        os.close(ours)  # what is written from now on fails, too
        turn = stream.wait_for("turn.ended")["data"]["turn"]
    assert (turn["id"], turn["reason"]) == (turn_id, "interrupted")
    assert process.wait(60) in {1, 130}


def test_a_terminal_that_says_twice_that_it_is_closed_is_heard_once(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    process = start_long_run(rehearsal_cli, project)
    rehearsal_daemon.signal(signal.SIGSTOP)
    try:
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        while "once more" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGHUP)
    finally:
        rehearsal_daemon.signal(signal.SIGCONT)
    result = read_lines_until(process, "result")[-1]
    assert (wait_for_exit(process)[0], result["turn"]["reason"]) == (130, "interrupted")


def test_a_closed_terminal_is_not_heard_under_nohup(rehearsal_cli: Cli, project: Path) -> None:
    command = ["nohup", str(OSTLER), "run", "run touch made", "--on-ask", "wait", "--format", "stream-json"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=project,
        env=rehearsal_cli.environment,
    )
    ask = read_lines_until(process, "ask.opened")[-1]["data"]["ask"]
    process.send_signal(signal.SIGHUP)
    rehearsal_cli.run("answer", ask["id"], "allow")
    assert read_lines_until(process, "result")[-1]["turn"]["reason"] == "completed"
    assert wait_for_exit(process)[0] == 0


@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
def test_output_that_cannot_be_written_stops_the_turn_and_is_said_in_a_line(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path, format: str
) -> None:
    prompt = (
        "read README.md" if format == "json" else f"run {LONG_COMMAND}"
    )  # with json nothing is written before the end
    command = [str(OSTLER), "run", prompt, "--allow", f"Bash({LONG_COMMAND})", "--format", format]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=project,
            env=rehearsal_cli.environment,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (
        1,
        "ostler: The output could not be written: No space left on device.",
    )
    assert ("bug" in ran.stderr, "Traceback" in ran.stderr) == (False, False)
    (session,) = rehearsal_daemon.call("session/list")["sessions"]
    with rehearsal_daemon.follow(f"?session={session['id']}&after=0") as stream:
        assert stream.wait_for("turn.ended")["data"]["turn"]["status"] == "ended"


def test_wrong_usage_whose_result_cannot_be_written_is_a_line_too(rehearsal_cli: Cli) -> None:
    with open("/dev/full", "w") as full:
        command = [str(OSTLER), "run", "x", "--timeout", "0", "--format", "json"]
        ran = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=rehearsal_cli.environment,
            timeout=60,
            check=False,
        )
    assert ran.returncode != 0
    assert [line.partition(" ")[0] for line in ran.stderr.splitlines()] == ["ostler:"]


def test_somebody_else_answers_while_it_waits(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    process = start_run(rehearsal_cli, project, "run touch made", "--on-ask", "wait")
    ask = read_lines_until(process, "ask.opened")[-1]["data"]["ask"]
    answered = rehearsal_cli.run("answer", ask["id"], "allow")
    assert (answered.code, answered.out) == (0, f"Answered {ask['id']}: allow\n")
    result = read_lines_until(process, "result")[-1]
    code, errors = wait_for_exit(process)
    assert (code, result["turn"]["reason"]) == (0, "completed")
    assert f"ostler answer {ask['id']}" in errors


def test_what_a_folder_brings_is_shown_to_whoever_shall_trust_it(rehearsal_cli: Cli, project: Path) -> None:
    (project / ".ostler").mkdir()
    (project / ".ostler" / "settings.json").write_text('{"permissions": {"allow": ["Bash(touch:*)"]}}')
    process = start_run(rehearsal_cli, project, "run touch made", "--on-ask", "wait")
    ask = read_lines_until(process, "ask.opened")[-1]["data"]["ask"]
    rehearsal_cli.run("answer", ask["id"], "trust")
    read_lines_until(process, "result")
    code, errors = wait_for_exit(process)
    assert code == 0
    waiting = f"  waiting for `ostler answer {ask['id']} trust|restrict`"
    assert [f"? {ask['message']}", "  - allows Bash(touch:*)", waiting] == errors.splitlines()[1:4]


def test_a_no_from_somebody_else_is_exit_5(rehearsal_cli: Cli, project: Path) -> None:
    process = start_run(rehearsal_cli, project, "run touch made", "--on-ask", "wait")
    ask = read_lines_until(process, "ask.opened")[-1]["data"]["ask"]
    rehearsal_cli.run("answer", ask["id"], "deny", "--message", "not now")
    result = read_lines_until(process, "result")[-1]
    assert (wait_for_exit(process)[0], result["turn"]["reason"]) == (5, "completed")


def test_waiting_reopens_a_session_that_refused_to_ask(rehearsal_cli: Cli, project: Path) -> None:
    session_id = rehearsal_cli.run("run", "read README.md", "--format", "json", cwd=project).json["session_id"]
    process = start_run(rehearsal_cli, project, "run touch made", "--on-ask", "wait", "--session", session_id)
    ask = read_lines_until(process, "ask.opened")[-1]["data"]["ask"]
    rehearsal_cli.run("answer", ask["id"], "allow")
    assert read_lines_until(process, "result")[-1]["turn"]["reason"] == "completed"
    assert wait_for_exit(process)[0] == 0


def test_an_ask_survives_a_killed_daemon_and_its_answer_ends_the_run(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    process = start_run(rehearsal_cli, project, "run touch made", "--on-ask", "wait")
    ask = read_lines_until(process, "ask.opened")[-1]["data"]["ask"]
    rehearsal_daemon.kill()
    assert process.stderr is not None
    assert "The daemon is gone; waiting for it.\n" in process.stderr
    rehearsal_daemon.start()
    assert rehearsal_cli.run("answer", ask["id"], "allow").code == 0
    seen = read_lines_until(process, "result")
    code, errors = wait_for_exit(process)
    assert (code, seen[-1]["turn"]["reason"]) == (0, "completed"), errors
    assert "The daemon is back." in errors
    cursors = [event["cursor"] for event in seen if event.get("cursor")]
    assert cursors == sorted(set(cursors))


def test_a_turn_that_a_crash_interrupted_is_exit_130(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    process = start_long_run(rehearsal_cli, project)
    rehearsal_daemon.kill()
    rehearsal_daemon.start()
    result = read_lines_until(process, "result")[-1]
    assert (wait_for_exit(process)[0], result["turn"]["reason"]) == (130, "interrupted")


def test_a_daemon_that_does_not_come_back_is_a_result_too(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    process = start_long_run(rehearsal_cli, project)
    rehearsal_daemon.kill()
    result = read_lines_until(process, "result")[-1]
    code, errors = wait_for_exit(process)
    assert (code, result["error"]["code"]) == (1, "daemon_unreachable")
    assert result["turn"]["status"] == "running"
    assert "The daemon is gone; waiting for it." in errors


def test_a_reader_that_leaves_stops_the_turn(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    process = start_run(rehearsal_cli, project, "run touch made", "--on-ask", "wait")
    ask = read_lines_until(process, "ask.opened")[-1]["data"]["ask"]
    assert process.stdout is not None
    process.stdout.close()
    with rehearsal_daemon.follow(f"?session={ask['session_id']}&after=0") as stream:
        rehearsal_cli.run("answer", ask["id"], "allow")
        assert stream.wait_for("turn.ended")["data"]["turn"]["id"] == ask["turn_id"]
    assert process.stderr is not None
    process.stderr.read()
    assert process.wait(60) == 1
    process.stderr.close()
