"""Asks in a terminal: no key answers what nobody has read, and nothing that is typed gets lost or goes astray."""

import os
from pathlib import Path
from typing import Any

from tests.clients.cli.chat.typing_person import Talk
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon

KEYS = "[y/a/l/n/x/d/e] "
TWO = "run touch one and run touch two"


def asks_of(daemon: Daemon, status: str | None = "open") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.call("ask/list", status=status)["asks"]
    return found


def answer(daemon: Daemon, choice: str) -> None:
    (ask,) = asks_of(daemon)
    daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": choice})


def test_a_key_that_comes_twice_answers_one_ask(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type(f"{TWO}\r")
        talk.until(KEYS)
        talk.type("yyy")
        talk.until("│ touch two")
        talk.until(KEYS)
        assert [ask["call"]["input"]["command"] for ask in asks_of(rehearsing)] == ["touch two"]
        talk.type("n")
        talk.until("✗ refused")
        talk.until("requests,")
    assert [path.name for path in project.iterdir()].count("two") == 0


def test_what_is_being_typed_waits_until_the_ask_is_answered(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type("run touch made\ryes and then read READ")
        talk.until("│ touch made")
        talk.until(KEYS)
        assert len(asks_of(rehearsing)) == 1
        talk.type("y")
        talk.until("requests,")
        talk.until("> yes and then read READ")


def test_words_begun_for_one_ask_never_answer_the_next(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type(f"{TWO}\r")
        talk.until(KEYS)
        talk.type("d")
        talk.until("words: ")
        talk.type("y and more")
        talk.until("y and more")
        answer(rehearsing, "allow")
        talk.until("is kept: ↑ brings it back")
        talk.until("allow, answered by ")
        talk.until("│ touch two")
        assert "y and more" not in talk.until(KEYS)
        talk.type("\x1b[A")
        talk.until("y and more")
        assert len(asks_of(rehearsing)) == 1


def test_escape_goes_back_from_the_words_to_the_keys_and_stops_a_turn(
    agent: Cli, rehearsing: Daemon, project: Path
) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type("run tail -f README.md\r")
        talk.until(KEYS)
        talk.type("d")
        talk.until("words: ")
        talk.type("\x1b")
        talk.until(KEYS)
        talk.type("y")
        talk.until("● Bash")
        talk.type("\x1b")
        talk.until("it was interrupted")


def test_all_of_a_long_command_is_shown_before_it_is_answered(agent: Cli, project: Path) -> None:
    command = "\\n".join([*(f"# {number}" for number in range(60)), "touch made"])
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type(f'call Bash {{"command": "{command}"}}\r')
        assert "│ touch made" not in talk.until("lines are not shown: [v] shows all of it")
        talk.until("[y/a/l/n/x/d/e/v] ")
        talk.type("v")
        talk.until("│ # 0")
        talk.until("│ touch made")


def test_an_unchanged_input_is_not_allowed_by_enter(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type("run touch made\r")
        talk.until(KEYS)
        talk.type("e")
        talk.until("input: ")
        talk.type("\r")
        talk.until("The input is as it was.")
        assert len(asks_of(rehearsing)) == 1


def test_ctrl_c_clears_what_is_half_typed_first(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type("run tail -f README.md\r")
        talk.until(KEYS)
        talk.type("y")
        talk.until("● Bash")
        talk.type("half a lin")
        talk.until("half a lin")
        talk.type("\x03")
        talk.until("… \r")
        assert "Stopping" not in talk.read
        talk.type("\x03")
        talk.until("it was interrupted")
        talk.type("\x03")
        talk.until("Once more, or Ctrl-D, leaves.")
        talk.type("\x03")
        talk.until("comes back.")
        assert talk.wait() == 0


def test_how_long_a_command_runs_is_shown_while_it_does(agent: Cli, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type("run tail -f README.md\r")
        talk.until(KEYS)
        talk.type("y")
        talk.until(" s  TODO one")
        talk.until(" s  TODO one")  # also where nothing more is printed
        talk.type("\x03")
        talk.until("it was interrupted")


def test_what_is_typed_while_the_daemon_is_gone_is_kept(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        rehearsing.kill()
        talk.until("The daemon is gone.")
        talk.type("read README.md\r")
        talk.until("> read README.md\n")
        talk.until("> read README.md")
        rehearsing.start()
        talk.until("The daemon is back; going on.")
        talk.type("\r")
        talk.until("“hello”")


def test_words_said_during_one_call_are_not_shown_again(agent: Cli, project: Path) -> None:
    os.mkfifo(project / "gate")
    with Talk(agent, "chat", cwd=project) as talk:
        talk.say("run cat gate")
        talk.until("● Bash cat gate")
        for words in ("read README.md", "find TODO in README.md"):
            talk.say(words)
            talk.until("(the agent reads it with its next request)")
        (project / "gate").write_text("open\n")
        talk.until("requests,")
    assert "»" not in talk.read


def test_a_terminal_that_knows_no_sequences_gets_none(agent: Cli, project: Path) -> None:
    shown = agent.in_terminal("chat", "--cwd", str(project), typed="read README.md\n\x04", TERM="dumb")
    assert ("“hello”" in shown.out, "\x1b" in shown.out) == (True, False)
