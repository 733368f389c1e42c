"""Asks in a terminal: no key answers what nobody has read, and nothing that is typed gets lost or goes astray."""

import os
from pathlib import Path
from typing import Any

from tests.clients.cli.chat.chat_driver import ChatDriver
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon

KEYS = "[y/a/l/n/x/d/e] "
TWO_COMMANDS = "run touch one and run touch two"


def list_asks(daemon: Daemon, status: str | None = "open") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.call("ask/list", status=status)["asks"]
    return found


def answer(daemon: Daemon, choice: str) -> None:
    (ask,) = list_asks(daemon)
    daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": choice})


def test_a_key_that_comes_twice_answers_one_ask(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type(f"{TWO_COMMANDS}\r")
        driver.read_until(KEYS)
        driver.type("yyy")
        driver.read_until("│ touch two")
        driver.read_until(KEYS)
        assert [ask["call"]["input"]["command"] for ask in list_asks(rehearsal_daemon)] == ["touch two"]
        driver.type("n")
        driver.read_until("✗ refused")
        driver.read_until("requests,")
    assert [path.name for path in project.iterdir()].count("two") == 0


def test_a_key_that_is_no_answer_is_refused_aloud_and_never_becomes_text(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("run touch made\r")
        driver.read_until(KEYS)
        for typed in ("q", "hello", "Q"):
            driver.type(typed)
            driver.read_until(f"'{typed}' is no answer to this: y, a, l, n, x, d or e.")
        driver.type("\r")
        driver.read_until("That is no answer to this")
        driver.type("/say mind the gap\r")
        driver.read_until("> /say mind the gap")
        driver.type("Y")
        driver.read_until("● Bash touch made")
        driver.read_until("requests,")
    assert (project / "made").exists()
    (session,) = rehearsal_daemon.call("session/list")["sessions"]
    told = str(rehearsal_daemon.call("session/messages", session_id=session["id"])["messages"])
    assert "mind the gap" in told
    assert "hello" not in told


def test_escape_at_an_ask_gives_words_that_wait_back_to_the_line(rehearsal_cli: Cli, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("run touch made\r")
        driver.read_until(KEYS)
        driver.type("/say mind the gap\r")
        driver.read_until("> /say mind the gap")
        driver.type("\x1b")
        driver.read_until("what waited is in the line again")
        driver.read_until("it was interrupted")
        driver.read_until("> mind the gap")


def test_a_line_that_is_no_answer_is_refused_in_a_pipe_too(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project) as driver:
        driver.type_line("run touch made")
        driver.read_until("[y] allow")
        driver.type_line("q")
        driver.read_until("'q' is no answer to this")
        driver.type_line("/asks")
        driver.read_until("? Bash touch made")
        driver.type_line("Y")
        driver.read_until("requests,")
        driver.close_input()
        assert driver.wait() == 0


def test_what_is_being_typed_waits_until_the_ask_is_answered(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("run touch made\ryes and then read READ")
        driver.read_until("│ touch made")
        driver.read_until(KEYS)
        assert len(list_asks(rehearsal_daemon)) == 1
        driver.type("y")
        driver.read_until("requests,")
        driver.read_until("> yes and then read READ")


def test_words_begun_for_one_ask_never_answer_the_next(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type(f"{TWO_COMMANDS}\r")
        driver.read_until(KEYS)
        driver.type("d")
        driver.read_until("words: ")
        driver.type("y and more")
        driver.read_until("y and more")
        answer(rehearsal_daemon, "allow")
        driver.read_until("is kept: ↑ brings it back")
        driver.read_until("allow, answered by ")
        driver.read_until("│ touch two")
        assert "y and more" not in driver.read_until(KEYS)
        driver.type("\x1b[A")
        driver.read_until("y and more")
        assert len(list_asks(rehearsal_daemon)) == 1


def test_escape_goes_back_from_the_words_to_the_keys_and_stops_a_turn(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("run tail -f README.md\r")
        driver.read_until(KEYS)
        driver.type("d")
        driver.read_until("words: ")
        driver.type("\x1b")
        driver.read_until(KEYS)
        driver.type("y")
        driver.read_until("● Bash")
        driver.type("\x1b")
        driver.read_until("it was interrupted")


def test_all_of_a_long_command_is_shown_before_it_is_answered(rehearsal_cli: Cli, project: Path) -> None:
    command = "\\n".join([*(f"# {number}" for number in range(60)), "touch made"])
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type(f'call Bash {{"command": "{command}"}}\r')
        assert "│ touch made" not in driver.read_until("lines are not shown: [v] shows all of it")
        driver.read_until("[y/a/l/n/x/d/e/v] ")
        driver.type("v")
        driver.read_until("│ # 0")
        driver.read_until("│ touch made")


def test_an_unchanged_input_is_not_allowed_by_enter(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("run touch made\r")
        driver.read_until(KEYS)
        driver.type("e")
        driver.read_until("input: ")
        driver.type("\r")
        driver.read_until("The input is as it was.")
        assert len(list_asks(rehearsal_daemon)) == 1


def test_ctrl_c_clears_what_is_half_typed_first(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("run tail -f README.md\r")
        driver.read_until(KEYS)
        driver.type("y")
        driver.read_until("● Bash")
        driver.type("half a lin")
        driver.read_until("half a lin")
        driver.type("\x03")
        driver.read_until("\x1b[K")
        assert "Stopping" not in driver.output
        driver.type("\x03")
        driver.read_until("it was interrupted")
        driver.type("\x03")
        driver.read_until("Once more, or Ctrl-D, leaves.")
        driver.type("\x03")
        driver.read_until("comes back.")
        assert driver.wait() == 0


def test_how_long_a_command_runs_is_shown_while_it_does(rehearsal_cli: Cli, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("run tail -f README.md\r")
        driver.read_until(KEYS)
        driver.type("y")
        driver.read_until("│ TODO one")
        for seconds in range(3, 6):  # also where nothing more is printed
            driver.read_until(f"{seconds}")
        driver.type("\x03")
        driver.read_until("it was interrupted")


def test_what_is_typed_while_the_daemon_is_gone_is_kept(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        rehearsal_daemon.kill()
        driver.read_until("The daemon is gone.")
        driver.type("read README.md\r")
        driver.read_until("Nobody answers at")
        driver.read_until("read README.md")
        rehearsal_daemon.start()
        driver.read_until("The daemon is back; going on.")
        driver.type("\r")
        driver.read_until("“hello”")


def test_words_said_during_one_call_are_not_shown_again(rehearsal_cli: Cli, project: Path) -> None:
    os.mkfifo(project / "gate")
    with ChatDriver(rehearsal_cli, "chat", cwd=project) as driver:
        driver.type_line("run cat gate")
        driver.read_until("● Bash cat gate")
        for words in ("read README.md", "find TODO in README.md"):
            driver.type_line(words)
            driver.read_until("(the agent reads it with its next request)")
        (project / "gate").write_text("open\n")
        driver.read_until("requests,")
    assert "»" not in driver.output


def test_a_terminal_that_knows_no_sequences_gets_none(rehearsal_cli: Cli, project: Path) -> None:
    shown = rehearsal_cli.run_in_terminal("chat", "--cwd", str(project), typed="read README.md\n\x04", TERM="dumb")
    assert ("“hello”" in shown.out, "\x1b" in shown.out) == (True, False)
