"""`chat` and `attach` on a real daemon."""

import re
import signal
from pathlib import Path

import pytest

from tests.clients.cli.chat.chat_driver import ChatDriver
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.failures import overloaded
from tests.support.messages_api.replies import calls, hold, message, says, thinks
from tests.support.messages_api.scripts import attempts
from tests.support.messages_api.server import ScriptedApi
from tests.support.model_replies import bash

LONG_COMMAND = "tail -f README.md"


def get_only_session(daemon: Daemon) -> str:
    (session,) = daemon.call("session/list")["sessions"]
    return str(session["id"])


def test_a_model_without_a_name_is_wrong_usage_and_no_bug(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("chat", "--model", "", cwd=project)
    assert (ran.code, ran.err) == (2, "ostler: --model: String should have at least 1 character.\n")


def test_a_chat_in_a_pipe_answers_line_by_line_and_waits_for_the_end(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("chat", cwd=project, typed="read README.md\n")
    assert ran.code == 0
    told = ran.out.splitlines()
    assert told[0] == f"A new session in {project}, model rehearsal, mode default. /help says what can be typed."
    assert "The model is `rehearsal`" in ran.out
    assert "  read README.md" in told  # an example
    assert any(line.startswith("● Read") and "✓" in line for line in told)
    assert "Read README.md: 2 lines, the first is “hello”" in told
    assert "2 requests, 1 call," in ran.out
    assert "comes back." in told[-1]


def test_a_chat_in_which_nothing_was_said_leaves_nothing_behind(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    assert rehearsal_cli.run("chat", cwd=project).code == 0
    assert rehearsal_daemon.call("session/list")["sessions"] == []


def test_ostler_with_nothing_is_help_in_a_pipe_and_a_chat_on_a_terminal(rehearsal_cli: Cli, project: Path) -> None:
    assert rehearsal_cli.run(cwd=project).out.startswith("Usage: ostler")
    with ChatDriver(rehearsal_cli, cwd=project, terminal=True) as driver:
        driver.read_until("A new session in")
        driver.read_until("> ")
        driver.type("\x04")
        assert driver.wait() == 0


def test_a_key_answers_an_ask_and_the_turn_goes_on(rehearsal_cli: Cli, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("run touch made\r")
        driver.read_until("[y/a/l/n/x/d/e] ")
        driver.type("y")
        driver.read_until("● Bash touch made")
        driver.read_until("2 requests, 1 call,")
        driver.type("\x04")
        assert driver.wait() == 0


def test_what_is_typed_before_the_chat_is_there_is_sent_by_its_enter(rehearsal_cli: Cli, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.type("list *\r")
        driver.read_until("● Glob *")
        driver.read_until("2 requests, 1 call,")
        driver.type("\x04")
        assert driver.wait() == 0


def test_an_answer_can_have_words_or_change_the_input(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("run touch made\r")
        driver.read_until("[y/a/l/n/x/d/e] ")
        driver.type("e")
        driver.read_until("input: ")
        driver.type('\x15{"command": "pwd"}\r')
        driver.read_until(str(project))
        driver.read_until("requests,")
        driver.type("run touch more\r")
        driver.read_until("[y/a/l/n/x/d/e] ")
        driver.type("d")
        driver.read_until("words: ")
        driver.type("tomorrow\r")
        driver.read_until("✗ refused: tomorrow")
    answers = [ask["answer"] for ask in rehearsal_daemon.call("ask/list", status=None)["asks"]]
    assert answers == [
        {"choice": "allow", "input": {"command": "pwd"}},
        {"choice": "deny", "message": "tomorrow"},
    ]


def test_always_is_not_asked_again(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project) as driver:
        driver.type_line("run touch made")
        driver.read_until("[a] always in this session")
        driver.type_line("a")
        driver.read_until("requests,")
        driver.type_line("run touch made")
        assert "?" not in driver.read_until("requests,")
        driver.close_input()
        assert driver.wait() == 0


def test_two_terminals_see_the_same_and_the_one_hears_who_answered_in_the_other(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project) as first:
        first.type_line("run touch made")
        first.read_until("[y] allow")
        with ChatDriver(rehearsal_cli, "attach", get_only_session(rehearsal_daemon)) as second:
            second.read_until("» run touch made")
            second.read_until("[y] allow")
            second.type_line("y")
            first.read_until("  allow, answered by another terminal\n")
            second.read_until("  allow\n")
            for driver in (first, second):
                driver.read_until("● Bash touch made … ✓")
                driver.read_until("requests,")
            second.type_line("read README.md")
            first.read_until("» read README.md")
            first.read_until("“hello”")


def test_attach_without_an_id_takes_the_session_that_waits(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    waiting = rehearsal_daemon.call("session/create", cwd=str(project))["id"]
    with rehearsal_daemon.follow("?after=0") as stream:
        rehearsal_daemon.call("turn/start", session_id=waiting, input="run touch made")
        stream.wait_for("ask.opened")
    rehearsal_daemon.call("session/create", cwd=str(project))
    with ChatDriver(rehearsal_cli, "attach") as driver:
        driver.read_until(waiting)
        driver.read_until("A turn is waiting.")
        driver.read_until("[y] allow")


def test_attach_without_an_id_prefers_this_folder_and_says_which_session_it_took(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path, tmp_path: Path
) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    idle = rehearsal_daemon.call("session/create", cwd=str(project))["id"]
    waiting = rehearsal_daemon.call("session/create", cwd=str(elsewhere))["id"]
    with rehearsal_daemon.follow("?after=0") as stream:
        rehearsal_daemon.call("turn/start", session_id=waiting, input="run touch made")
        stream.wait_for("ask.opened")
    ran = rehearsal_cli.run("attach", cwd=project)
    assert f"Attached to {idle}, the newest session of this folder." in ran.err
    ran = rehearsal_cli.run("attach", cwd=elsewhere)
    assert f"Attached to {waiting}, the newest session of this folder that waits." in ran.err
    ran = rehearsal_cli.run("attach", cwd=tmp_path)
    assert f"Attached to {waiting}, which waits in {elsewhere}: this folder has no session." in ran.err


def test_what_a_new_chat_suggests_is_there_and_can_be_done(rehearsal_cli: Cli, tmp_path: Path) -> None:
    (folder := tmp_path / "bare").mkdir()
    (folder / "notes.txt").write_text("TODO: hay\n")
    (folder / "config.bin").write_bytes(b"\0")
    shown = rehearsal_cli.run("chat", cwd=folder).out
    suggested = re.findall(r"^  ((?:read|find|run|write) .*)$", shown, re.MULTILINE)
    assert suggested[:2] == ["read notes.txt", "find TODO"]
    ran = rehearsal_cli.run("run", "; ".join(suggested), "--mode", "acceptEdits", "--allow", "Bash(ls:*)", cwd=folder)
    assert ran.code == 0, ran
    assert (folder / "rehearsal.txt").read_text() == "oats\n"
    asked = rehearsal_cli.run("run", "hello", cwd=folder).out
    assert "- read notes.txt" in asked
    assert "README" not in asked


def test_attach_shows_what_a_running_command_has_printed_so_far(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    rules = {"allow": [f"Bash({LONG_COMMAND})"]}
    session = rehearsal_daemon.call("session/create", cwd=str(project), rules=rules)
    with rehearsal_daemon.follow(f"?session={session['id']}") as stream:
        turn = rehearsal_daemon.call("turn/start", session_id=session["id"], input=f"run {LONG_COMMAND}")
        next(event for event in stream.read_events() if event["type"] == "tool.progress")
        with ChatDriver(rehearsal_cli, "attach", session["id"], cwd=project) as driver:
            driver.read_until(f"● Bash {LONG_COMMAND} …\n  hello\n  TODO one\n  …")
            rehearsal_daemon.call("turn/interrupt", turn_id=turn["id"])
            driver.read_until("✗ The turn ended: it was interrupted.")


def test_attaching_where_there_is_no_session_is_said(rehearsal_cli: Cli) -> None:
    ran = rehearsal_cli.run("attach")
    assert (ran.code, ran.err) == (1, "ostler: There is no session yet. `ostler chat` begins one.\n")


def test_words_during_a_turn_steer_it(api: ScriptedApi, home: Path, project: Path) -> None:
    gate = Gate()
    api.always(message(says("Let me ", hold(gate), "see.")), message(says("As you say.")))
    with (
        Daemon(home, environment=api.environment),
        ChatDriver(Cli(home), "chat", "--model", "claude-sonnet-5", cwd=project) as driver,
    ):
        driver.type_line("look around")
        driver.read_until("Let me ")
        driver.type_line("only in src")
        driver.read_until("(the agent reads it with its next request)")
        gate.open()
        driver.read_until("As you say.")
        driver.close_input()
        assert driver.wait() == 0
    assert "only in src" in str(api.requests[1].body["messages"][-1])


def test_escape_gives_words_that_wait_back_to_the_line_and_starts_nothing(
    api: ScriptedApi, home: Path, project: Path
) -> None:
    api.always(message(says("Let me ", hold(Gate()), "see.")), message(says("As you say.")))
    with (
        Daemon(home, environment=api.environment) as daemon,
        ChatDriver(Cli(home), "chat", "--model", "claude-sonnet-5", cwd=project, terminal=True) as driver,
    ):
        driver.read_until("> ")
        driver.type("look at it\r")
        driver.read_until("Let me")
        driver.type("no, wait\r")
        driver.read_until("» no, wait")
        driver.type("/queue and then sleep\r")
        driver.read_until("» and then sleep")
        driver.type("\x1b")
        # The answer and the event come on two connections.
        driver.read_until_all("(what waited is in the line again)", "it was interrupted.")
        # It is there to be changed: two lines, which go as one input.
        driver.read_until("and then sleep")
        driver.type(" well\r")
        driver.read_until("As you say.")
        [session] = daemon.call("session/list")["sessions"]
        ended = daemon.call("turn/list", session_id=session["id"])["turns"]
        assert [turn["reason"] for turn in ended[:2]] == ["interrupted", "interrupted"]
        inputs = [
            block["text"]
            for one in daemon.call("session/messages", session_id=session["id"])["messages"]
            for block in one["content"]
            if one["role"] == "user" and not block["text"].startswith("<ostler-")
        ]
        assert inputs == ["look at it", "no, wait\nand then sleep well"]
        assert len(ended) == 3


def test_thoughts_and_retries_are_shown(api: ScriptedApi, home: Path, project: Path) -> None:
    good = message(thinks("Hm."), says("Good day."))
    api.always(attempts(overloaded("0"), good))
    with Daemon(home, environment=api.environment):
        ran = Cli(home).run("chat", "--model", "claude-sonnet-5", cwd=project, typed="hello\n")
    assert ran.out.index("The model did not answer") < ran.out.index("Hm.\n") < ran.out.index("Good day.\n")


def test_ctrl_c_stops_the_turn_and_twice_leaves_where_nothing_runs(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project) as driver:
        driver.type_line(f"run {LONG_COMMAND}")
        driver.read_until("[y] allow")
        driver.type_line("y")
        driver.read_until("● Bash")
        driver.interrupt()
        driver.read_until("✗ The turn ended: it was interrupted.")
        driver.interrupt()
        driver.read_until("Once more, or Ctrl-D, leaves.")
        driver.interrupt()
        driver.read_until("comes back.")
        assert driver.wait() == 0


def test_ctrl_c_is_a_key_of_the_terminal_too(rehearsal_cli: Cli, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type(f"run {LONG_COMMAND}\r")
        driver.read_until("[y/a/l/n/x/d/e] ")
        driver.type("y")
        driver.read_until("● Bash")
        driver.type("\x03")
        driver.read_until("it was interrupted")


def test_leaving_lets_the_turn_go_on(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type(f"run {LONG_COMMAND}\r")
        driver.read_until("[y/a/l/n/x/d/e] ")
        driver.type("y")
        driver.read_until("● Bash")
        driver.type("\x04")
        driver.read_until("The turn goes on without you. `ostler attach s_")
        assert driver.wait() == 0
    assert rehearsal_daemon.call("session/get", session_id=get_only_session(rehearsal_daemon))["status"] == "running"


def test_a_chat_goes_on_after_the_daemon_was_killed_in_the_middle_of_a_turn(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project) as driver:
        driver.type_line("run touch made")
        driver.read_until("[y] allow")
        rehearsal_daemon.kill()
        driver.read_until("The daemon is gone.")
        rehearsal_daemon.start()
        driver.read_until("The daemon is back; going on.")
        driver.type_line("y")
        driver.read_until("● Bash touch made … ✓")
        driver.read_until("requests,")
        driver.type_line("read README.md")
        driver.read_until("“hello”")


def test_what_is_left_of_a_killed_turn_is_told(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project) as driver:
        driver.type_line(f"run {LONG_COMMAND}")
        driver.read_until("[y] allow")
        driver.type_line("y")
        driver.read_until("● Bash")
        rehearsal_daemon.kill()
        rehearsal_daemon.start()
        driver.read_until("outcome unknown")
        driver.read_until("✗ The turn ended: it was interrupted.")


def test_changes_to_files_are_shown_as_a_diff(rehearsal_cli: Cli, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project) as driver:
        driver.type_line("/mode acceptEdits")
        driver.read_until("The mode is now acceptEdits.")
        driver.type_line("replace hello with good day in README.md")
        driver.read_until("-hello")
        driver.read_until("+good day")
        driver.read_until("requests,")


def test_slash_commands_are_for_the_terminal(rehearsal_cli: Cli, project: Path) -> None:
    commands = [
        "/help",
        "/mode",
        "/mode nonsense",
        "/model",
        "/asks",
        "/sessions",
        "/interrupt",
        "/nonsense",
        "/queue",
        "/quit",
    ]
    ran = rehearsal_cli.run("chat", cwd=project, typed="\n".join(commands) + "\n")
    assert ran.code == 0
    for words in (
        "/interrupt      stop the turn",
        "The mode is default.",
        "mode: ",
        "The model is rehearsal.",
        "Nothing is asked.",
        f"\t{project}",
        "Nothing runs.",
        "There is no /nonsense.",
        "/queue TEXT",
    ):
        assert words in ran.out, (words, ran.out)


def test_a_queued_turn_begins_after_the_one_that_runs(rehearsal_cli: Cli, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project) as driver:
        driver.type_line("run touch made")
        driver.read_until("[y] allow")
        driver.type_line("/queue read README.md")
        driver.type_line("y")
        driver.read_until("requests,")
        driver.read_until("“hello”")


def test_a_deleted_session_ends_its_terminals(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project) as driver:
        driver.type_line("read README.md")
        driver.read_until("requests,")
        rehearsal_cli.run("delete", "--yes", get_only_session(rehearsal_daemon))
        driver.read_until("The session was deleted.")
        assert driver.wait() == 0


def test_a_hangup_restores_the_terminal_and_leaves(rehearsal_cli: Cli, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait() == 0
    assert driver.output.count("\x1b[?2004h") == driver.output.count("\x1b[?2004l") == 1


def test_a_question_is_answered_in_a_chat(rehearsal_cli: Cli, project: Path) -> None:
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("ask me which one: tea, coffee or water\r")
        driver.read_until("? Which one?")
        driver.read_until("answer: ")
        driver.type("1,2\r")
        driver.read_until("Only one of them can be chosen.")
        driver.type("2: black\r")
        driver.read_until("Which one? coffee")
        driver.read_until("The person's note: black")


def test_a_plan_is_read_changed_in_the_editor_and_approved_in_a_chat(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "sed -i s/README/OTHER/")
    monkeypatch.setenv("PAGER", "head -n 50")
    with ChatDriver(rehearsal_cli, "chat", cwd=project, terminal=True) as driver:
        driver.read_until("> ")
        driver.type("plan read README.md\r")
        driver.read_until("Go ahead with this plan?")
        driver.read_until("[y/a/m/n/d/e/v] ")
        driver.type("v")
        driver.read_until("1. read README.md")
        driver.read_until("[y/a/m/n/d/e/v] ")
        driver.type("e")
        driver.read_until("The plan is changed; it counts when you approve it.")
        driver.read_until("│ 1. read OTHER.md")
        driver.read_until("(as you changed it)")
        driver.type("y")
        driver.read_until("approve")
        driver.read_until("The person changed the plan and approved it.")
    (ask,) = rehearsal_daemon.call("ask/list", status="resolved")["asks"]
    assert "1. read OTHER.md" in ask["answer"]["plan"]


def test_the_ask_of_an_agent_waits_until_the_sentence_is_over(api: ScriptedApi, home: Path, project: Path) -> None:
    asks, ends = Gate(), Gate()
    api.script("scout", message(says("Hm.", hold(asks)), bash("touch it")), message(says("Touched.")))
    work = {"description": "touch", "prompt": "[scout] Touch it.", "name": "scout", "run_in_background": True}
    # The third is for its end, which wakes the session where a chat is attached.
    seen = message(says("I see."))
    api.always(message(calls("Agent", work)), message(says("Good ", hold(ends), "day.")), seen)
    with (
        Daemon(home, environment=api.environment) as daemon,
        ChatDriver(Cli(home), "chat", "--model", "claude-sonnet-5", cwd=project) as driver,
    ):
        driver.type_line("go")
        driver.read_until("Good ")
        asks.open()
        while not daemon.call("ask/list")["asks"]:
            pass
        ends.open()
        assert driver.read_until("? scout: Run this command:").startswith("day.\n")
        driver.type_line("/agents")
        driver.read_until("waiting  general-purpose scout: touch\n")
        driver.type_line("y")
        driver.read_until("  ● scout: Bash touch it … ✓")
        driver.type_line("/agents")
        driver.type_line("/todos")
        driver.read_until("The work list is empty.")
