"""`chat` and `attach` on a real daemon."""

import signal
from pathlib import Path

from tests.clients.cli.chat.typing_person import Talk
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.failures import overloaded
from tests.support.messages_api.replies import hold, message, says, thinks
from tests.support.messages_api.scripts import attempts
from tests.support.messages_api.server import ScriptedApi

LONG = "tail -f README.md"


def session_of(daemon: Daemon) -> str:
    (session,) = daemon.call("session/list")["sessions"]
    return str(session["id"])


def test_a_model_without_a_name_is_wrong_usage_and_no_bug(agent: Cli, project: Path) -> None:
    ran = agent.run("chat", "--model", "", cwd=project)
    assert (ran.code, ran.err) == (2, "ostler: --model: String should have at least 1 character.\n")


def test_a_chat_in_a_pipe_answers_line_by_line_and_waits_for_the_end(agent: Cli, project: Path) -> None:
    ran = agent.run("chat", cwd=project, typed="read README.md\n")
    assert ran.code == 0
    told = ran.out.splitlines()
    assert told[0] == f"A new session in {project}, model rehearsal, mode default. /help says what can be typed."
    assert "The model is `rehearsal`" in ran.out
    assert "  read README.md" in told  # an example
    assert any(line.startswith("● Read") and "✓" in line for line in told)
    assert "Read README.md: 2 lines, the first is “hello”" in told
    assert "2 requests, 1 call," in ran.out
    assert "comes back." in told[-1]


def test_a_chat_in_which_nothing_was_said_leaves_nothing_behind(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    assert agent.run("chat", cwd=project).code == 0
    assert rehearsing.call("session/list")["sessions"] == []


def test_ostler_with_nothing_is_help_in_a_pipe_and_a_chat_on_a_terminal(agent: Cli, project: Path) -> None:
    assert agent.run(cwd=project).out.startswith("Usage: ostler")
    with Talk(agent, cwd=project, terminal=True) as talk:
        talk.until("A new session in")
        talk.until("> ")
        talk.type("\x04")
        assert talk.wait() == 0


def test_a_key_answers_an_ask_and_the_turn_goes_on(agent: Cli, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type("run touch made\r")
        talk.until("[y/a/l/n/x/d/e] ")
        talk.type("y")
        talk.until("● Bash touch made")
        talk.until("2 requests, 1 call,")
        talk.type("\x04")
        assert talk.wait() == 0


def test_an_answer_can_have_words_or_change_the_input(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type("run touch made\r")
        talk.until("[y/a/l/n/x/d/e] ")
        talk.type("e")
        talk.until("input: ")
        talk.type('\x15{"command": "pwd"}\r')
        talk.until(str(project))
        talk.until("requests,")
        talk.type("run touch more\r")
        talk.until("[y/a/l/n/x/d/e] ")
        talk.type("d")
        talk.until("words: ")
        talk.type("tomorrow\r")
        talk.until("✗ refused: tomorrow")
    answers = [ask["answer"] for ask in rehearsing.call("ask/list", status=None)["asks"]]
    assert answers == [
        {"choice": "allow", "input": {"command": "pwd"}},
        {"choice": "deny", "message": "tomorrow"},
    ]


def test_always_is_not_asked_again(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project) as talk:
        talk.say("run touch made")
        talk.until("[a] always in this session")
        talk.say("a")
        talk.until("requests,")
        talk.say("run touch made")
        assert "?" not in talk.until("requests,")
        talk.end_of_input()
        assert talk.wait() == 0


def test_two_terminals_see_the_same_and_the_one_hears_who_answered_in_the_other(
    agent: Cli, rehearsing: Daemon, project: Path
) -> None:
    with Talk(agent, "chat", cwd=project) as first:
        first.say("run touch made")
        first.until("[y] allow")
        with Talk(agent, "attach", session_of(rehearsing)) as second:
            second.until("» run touch made")
            second.until("[y] allow")
            second.say("y")
            first.until("  allow, answered by another terminal\n")
            second.until("  allow\n")
            for talk in (first, second):
                talk.until("● Bash touch made … ✓")
                talk.until("requests,")
            second.say("read README.md")
            first.until("» read README.md")
            first.until("“hello”")


def test_attach_without_an_id_takes_the_session_that_waits(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    waiting = rehearsing.call("session/create", cwd=str(project))["id"]
    with rehearsing.follow("?after=0") as stream:
        rehearsing.call("turn/start", session_id=waiting, input="run touch made")
        stream.until("ask.opened")
    rehearsing.call("session/create", cwd=str(project))
    with Talk(agent, "attach") as talk:
        talk.until(waiting)
        talk.until("A turn is waiting.")
        talk.until("[y] allow")


def test_attaching_where_there_is_no_session_is_said(agent: Cli) -> None:
    ran = agent.run("attach")
    assert (ran.code, ran.err) == (1, "ostler: There is no session yet. `ostler chat` begins one.\n")


def test_words_during_a_turn_steer_it(api: ScriptedApi, home: Path, project: Path) -> None:
    gate = Gate()
    api.always(message(says("Let me ", hold(gate), "see.")), message(says("As you say.")))
    with (
        Daemon(home, environment=api.environment),
        Talk(Cli(home), "chat", "--model", "claude-sonnet-5", cwd=project) as talk,
    ):
        talk.say("look around")
        talk.until("Let me ")
        talk.say("only in src")
        talk.until("(the agent reads it with its next request)")
        gate.open()
        talk.until("As you say.")
        talk.end_of_input()
        assert talk.wait() == 0
    assert "only in src" in str(api.requests[1].body["messages"][-1])


def test_thoughts_and_retries_are_shown(api: ScriptedApi, home: Path, project: Path) -> None:
    good = message(thinks("Hm."), says("Good day."))
    api.always(attempts(overloaded("0"), good))
    with Daemon(home, environment=api.environment):
        ran = Cli(home).run("chat", "--model", "claude-sonnet-5", cwd=project, typed="hello\n")
    assert ran.out.index("The model did not answer") < ran.out.index("Hm.\n") < ran.out.index("Good day.\n")


def test_ctrl_c_stops_the_turn_and_twice_leaves_where_nothing_runs(
    agent: Cli, rehearsing: Daemon, project: Path
) -> None:
    with Talk(agent, "chat", cwd=project) as talk:
        talk.say(f"run {LONG}")
        talk.until("[y] allow")
        talk.say("y")
        talk.until("● Bash")
        talk.interrupt()
        talk.until("✗ The turn ended: it was interrupted.")
        talk.interrupt()
        talk.until("Once more, or Ctrl-D, leaves.")
        talk.interrupt()
        talk.until("comes back.")
        assert talk.wait() == 0


def test_ctrl_c_is_a_key_of_the_terminal_too(agent: Cli, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type(f"run {LONG}\r")
        talk.until("[y/a/l/n/x/d/e] ")
        talk.type("y")
        talk.until("● Bash")
        talk.type("\x03")
        talk.until("it was interrupted")


def test_leaving_lets_the_turn_go_on(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.type(f"run {LONG}\r")
        talk.until("[y/a/l/n/x/d/e] ")
        talk.type("y")
        talk.until("● Bash")
        talk.type("\x04")
        talk.until("The turn goes on without you. `ostler attach s_")
        assert talk.wait() == 0
    assert rehearsing.call("session/get", session_id=session_of(rehearsing))["status"] == "running"


def test_a_chat_goes_on_after_the_daemon_was_killed_in_the_middle_of_a_turn(
    agent: Cli, rehearsing: Daemon, project: Path
) -> None:
    with Talk(agent, "chat", cwd=project) as talk:
        talk.say("run touch made")
        talk.until("[y] allow")
        rehearsing.kill()
        talk.until("The daemon is gone.")
        rehearsing.start()
        talk.until("The daemon is back; going on.")
        talk.say("y")
        talk.until("● Bash touch made … ✓")
        talk.until("requests,")
        talk.say("read README.md")
        talk.until("“hello”")


def test_what_is_left_of_a_killed_turn_is_told(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project) as talk:
        talk.say(f"run {LONG}")
        talk.until("[y] allow")
        talk.say("y")
        talk.until("● Bash")
        rehearsing.kill()
        rehearsing.start()
        talk.until("outcome unknown")
        talk.until("✗ The turn ended: it was interrupted.")


def test_changes_to_files_are_shown_as_a_diff(agent: Cli, project: Path) -> None:
    with Talk(agent, "chat", cwd=project) as talk:
        talk.say("/mode acceptEdits")
        talk.until("The mode is now acceptEdits.")
        talk.say("replace hello with good day in README.md")
        talk.until("-hello")
        talk.until("+good day")
        talk.until("requests,")


def test_slash_commands_are_for_the_terminal(agent: Cli, project: Path) -> None:
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
    ran = agent.run("chat", cwd=project, typed="\n".join(commands) + "\n")
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


def test_a_queued_turn_begins_after_the_one_that_runs(agent: Cli, project: Path) -> None:
    with Talk(agent, "chat", cwd=project) as talk:
        talk.say("run touch made")
        talk.until("[y] allow")
        talk.say("/queue read README.md")
        talk.say("y")
        talk.until("requests,")
        talk.until("“hello”")


def test_a_deleted_session_ends_its_terminals(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    with Talk(agent, "chat", cwd=project) as talk:
        talk.say("read README.md")
        talk.until("requests,")
        agent.run("delete", "--yes", session_of(rehearsing))
        talk.until("The session was deleted.")
        assert talk.wait() == 0


def test_a_hangup_restores_the_terminal_and_leaves(agent: Cli, project: Path) -> None:
    with Talk(agent, "chat", cwd=project, terminal=True) as talk:
        talk.until("> ")
        talk.process.send_signal(signal.SIGTERM)
        assert talk.wait() == 0
    assert talk.read.count("\x1b[?2004h") == talk.read.count("\x1b[?2004l") == 1
