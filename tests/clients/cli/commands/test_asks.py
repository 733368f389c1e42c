"""`asks`, `answer`, `tools`, `fork`, `completion` on a real daemon."""

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.clients.conftest import OSTLER, Cli, Ran
from tests.support.daemon import Daemon


def asked(daemon: Daemon, folder: Path, what: str = "run touch made") -> dict[str, Any]:
    """An ask that is open in a session of its own."""
    session = daemon.call("session/create", cwd=str(folder))
    with daemon.follow(f"?session={session['id']}&after=0") as stream:
        daemon.call("turn/start", session_id=session["id"], input=what)
        ask: dict[str, Any] = stream.until("ask.opened")["data"]["ask"]
    return ask


def end_of(daemon: Daemon, ask: dict[str, Any]) -> dict[str, Any]:
    turn: dict[str, Any] = daemon.call("turn/wait", turn_id=ask["turn_id"])
    return turn


def test_asks_are_listed_with_what_can_be_answered(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    ask = asked(rehearsing, project)
    listed = agent.run("asks")
    assert listed.code == 0
    cells = listed.out.rstrip("\n").split("\t")
    assert cells == [
        ask["id"],
        "open",
        "permission",
        ask["session_id"],
        "Bash touch made",
        "allow|allow_always|deny|deny_always",
    ]


def test_asks_are_chosen_by_session_and_settled_ones_are_left_out(
    agent: Cli, rehearsing: Daemon, project: Path
) -> None:
    first, second = asked(rehearsing, project), asked(rehearsing, project)
    assert agent.run("answer", first["id"], "allow").code == 0

    def ids(*arguments: str) -> list[str]:
        return [ask["id"] for ask in agent.run("asks", "--format", "json", *arguments).json["asks"]]

    assert ids() == [second["id"]]
    assert ids("--all") == [first["id"], second["id"]]
    assert ids("--all", "--session", first["session_id"]) == [first["id"]]


def test_nothing_asked_is_no_failure(agent: Cli) -> None:
    listed = agent.run("asks")
    assert (listed.code, listed.out, listed.err) == (0, "", "Nothing is asked.\n")


def test_on_a_terminal_it_says_how_to_answer(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    ask = asked(rehearsing, project)
    shown = agent.in_terminal("asks").out
    assert ask["id"] in shown
    assert "`ostler answer ID CHOICE`" in shown


LINES = 'call Bash {"command": "# only a look\\ntouch made"}'


def test_one_ask_is_shown_whole(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    ask = asked(rehearsing, project, LINES)
    listed = agent.run("asks").out.split("\t")
    assert listed[4] == "Bash # only a look ⏎ touch made"
    shown = agent.run("asks", ask["id"][-6:])
    assert (shown.code, shown.out.splitlines()[3:6]) == (
        0,
        ["? Run this command:", "  │ # only a look", "  │ touch made"],
    )
    assert f"`ostler answer {ask['id']} allow|" in shown.err
    assert agent.run("asks", ask["id"], "--format", "json").json == rehearsing.call("ask/get", ask_id=ask["id"])


def test_an_answer_says_what_it_was_about(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    ask = asked(rehearsing, project, LINES)
    assert agent.run("answer", ask["id"], "allow").err == "  Bash\n  │ # only a look\n  │ touch made\n"
    other = asked(rehearsing, project, LINES)
    changed = agent.run("answer", other["id"], "allow", "--input", '{"command": "pwd"}')
    assert changed.err == "  Bash\n  │ pwd\n"


@pytest.mark.parametrize("choice", ["allow", "allow_always"])
def test_a_yes_lets_the_call_run(agent: Cli, rehearsing: Daemon, project: Path, choice: str) -> None:
    ask = asked(rehearsing, project)
    answered = agent.run("answer", ask["id"], choice)
    assert (answered.code, answered.out) == (0, f"Answered {ask['id']}: {choice}\n")
    assert end_of(rehearsing, ask)["denials"] == []


def test_a_no_without_words_ends_the_turn_unless_it_is_told_otherwise(
    agent: Cli, rehearsing: Daemon, project: Path
) -> None:
    plain, going_on = asked(rehearsing, project), asked(rehearsing, project)
    agent.run("answer", plain["id"], "deny")
    agent.run("answer", going_on["id"], "deny", "--no-interrupt")
    assert end_of(rehearsing, plain)["reason"] == "interrupted"
    assert end_of(rehearsing, going_on)["reason"] == "completed"


def test_a_no_with_words_tells_them_to_the_model(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    ask = asked(rehearsing, project)
    agent.run("answer", ask["id"], "deny", "--message", "use pnpm")
    turn = end_of(rehearsing, ask)
    assert turn["reason"] == "completed"
    assert "use pnpm" in turn["result_text"]


def test_the_input_can_be_changed(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    ask = asked(rehearsing, project)
    agent.run("answer", ask["id"], "allow", "--input", '{"command": "pwd"}')
    assert str(project) in end_of(rehearsing, ask)["result_text"]


def test_a_rule_of_ones_own_is_remembered(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    ask = asked(rehearsing, project)
    agent.run("answer", ask["id"], "allow_always", "--rule", "Bash(touch other)", "--scope", "session")
    end_of(rehearsing, ask)
    again = agent.run("run", "run touch other", "--session", ask["session_id"], "--format", "json")
    assert (again.code, again.json["turn"]["denials"]) == (0, [])


@pytest.mark.parametrize("part", [slice(0, -4), slice(-5, None)], ids=["start", "end"])
def test_a_part_of_the_id_is_enough(agent: Cli, rehearsing: Daemon, project: Path, part: slice) -> None:
    ask = asked(rehearsing, project)
    assert agent.run("answer", ask["id"][part], "allow").out == f"Answered {ask['id']}: allow\n"


def test_a_part_that_fits_several_is_refused(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    first, second = asked(rehearsing, project), asked(rehearsing, project)
    ran = agent.run("answer", "k_", "allow")
    assert (ran.code, "could be any of" in ran.err) == (1, True)
    assert all(ask["id"] in ran.err for ask in (first, second))


def test_an_unknown_ask_is_said(agent: Cli) -> None:
    ran = agent.run("answer", "k_nothing", "allow")
    assert (ran.code, ran.err) == (1, "ostler: There is no ask 'k_nothing'. `ostler asks` lists what is open.\n")


def test_of_two_answers_at_once_one_wins_and_the_other_is_told_which(
    agent: Cli, rehearsing: Daemon, project: Path
) -> None:
    ask = asked(rehearsing, project)

    def answer(choice: str) -> Ran:
        return agent.run("answer", ask["id"], choice)

    with ThreadPoolExecutor(4) as pool:
        ran = list(pool.map(answer, ["allow", "deny", "allow_always", "deny_always"]))
    winner = rehearsing.call("ask/get", ask_id=ask["id"])["answer"]["choice"]
    assert sorted(one.code for one in ran) == [0, 1, 1, 1]
    assert [one.out for one in ran if one.code == 0] == [f"Answered {ask['id']}: {winner}\n"]
    losers = [one.err for one in ran if one.code == 1]
    assert all(line.startswith("ostler: Too late: ") and line.endswith(f"with {winner}.\n") for line in losers)


def test_an_ask_that_nobody_waits_for_any_more_is_told_as_such(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    ask = asked(rehearsing, project)
    rehearsing.call("turn/interrupt", turn_id=ask["turn_id"])
    end_of(rehearsing, ask)
    ran = agent.run("answer", ask["id"], "allow")
    assert (ran.code, ran.err) == (1, f"ostler: Too late: the ask {ask['id']} is cancelled.\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["allow", "--message", "x"], "--message: not together with allow"),
        (["deny", "--rule", "Bash"], "--rule: not together with deny"),
        (["cancel", "--input", "{}"], "--input: not together with cancel"),
        (["allow", "--input", "{"], "--input is not JSON"),
        (["allow", "--input", "[]"], "--input is not a JSON object"),
        (["perhaps"], "perhaps"),
    ],
)
def test_a_wrong_answer_is_exit_2_before_anybody_is_asked(cli: Cli, arguments: list[str], complaint: str) -> None:
    ran = cli.run("--no-start", "answer", "k_1", *arguments)
    assert (ran.code, complaint in ran.err) == (2, True), ran.err


def test_an_answer_that_the_ask_does_not_take_is_said(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    ask = asked(rehearsing, project)
    ran = agent.run("answer", ask["id"], "approve")
    assert (ran.code, "this ask takes allow" in ran.err) == (2, True)


def test_every_choice_and_scope_of_the_protocol_can_be_given() -> None:
    from ostler.clients.cli.commands.asks import Choice, ScopeName
    from ostler.protocol.ask import Answer, Scope

    tags = {get_args(member)[1].tag for member in get_args(get_args(Answer)[0])}
    assert tags == set(get_args(Choice))
    assert get_args(Scope) == get_args(ScopeName)


def test_every_mode_of_the_protocol_can_be_given() -> None:
    from ostler.clients.cli.commands.run import ModeName
    from ostler.protocol.session import Mode

    assert get_args(Mode) == get_args(ModeName)


def test_a_call_is_shown_with_what_people_said_about_it(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    ask = asked(rehearsing, project)
    agent.run("answer", ask["id"], "allow")
    end_of(rehearsing, ask)
    assert "  (allowed by another terminal)" in agent.run("show", ask["session_id"]).out


def test_tools_are_lines_with_tabs(agent: Cli, rehearsing: Daemon) -> None:
    listed = agent.run("tools")
    rows = {cells[0]: cells[1:] for cells in (line.split("\t") for line in listed.out.splitlines())}
    assert rows["Bash"][:3] == ["writes", "on", "built-in"]
    assert rows["Read"][0] == "reads"
    assert agent.run("tools", "--format", "json").json == rehearsing.call("tool/list")


def test_tools_of_a_session_are_those_that_it_has(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    session = rehearsing.call("session/create", cwd=str(project), tools="read-only")
    rows = [line.split("\t") for line in agent.run("tools", "--session", session["id"]).out.splitlines()]
    assert {row[0] for row in rows if row[2] == "on"} >= {"Read", "Grep", "Glob"}
    assert "Bash" not in {row[0] for row in rows if row[2] == "on"}


def test_tools_on_a_terminal_are_columns(agent: Cli) -> None:
    assert "\t" not in agent.in_terminal("tools").out


def test_a_fork_has_the_history_up_to_a_message(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    session_id = agent.run("run", "read README.md", "--format", "json", cwd=project).json["session_id"]
    messages = rehearsing.call("session/messages", session_id=session_id)["messages"]
    whole = agent.run("fork", session_id, "--title", "another way")
    assert (whole.code, whole.err) == (0, f"Go on there with `ostler attach {whole.out.strip()}`.\n")
    short = agent.run("fork", session_id, "--at", messages[0]["id"], "--format", "json").json
    assert short["root_id"] == short["id"]

    def count(one: str) -> int:
        return len(rehearsing.call("session/messages", session_id=one)["messages"])

    assert (count(whole.out.strip()), count(short["id"])) == (len(messages), 1)
    assert rehearsing.call("session/get", session_id=whole.out.strip())["title"] == "another way"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(cli: Cli, shell: str) -> None:
    printed = cli.run("completion", shell)
    assert (printed.code, "_OSTLER_COMPLETE" in printed.out) == (0, True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_script_of_bash_completes_commands_and_options(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(cli.run("completion", "bash").out)
    code = f"""
        PATH={OSTLER.parent}:$PATH; source {script}
        COMP_WORDS=(ostler att); COMP_CWORD=1; _ostler_completion ostler; echo "${{COMPREPLY[*]}}"
        COMP_WORDS=(ostler run --for); COMP_CWORD=2; _ostler_completion ostler; echo "${{COMPREPLY[*]}}"
    """
    done = subprocess.run(
        ["bash", "-c", code], env={**os.environ, **cli.environment}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["attach", "--format"]


def test_json_of_asks_is_what_the_wire_says(agent: Cli, rehearsing: Daemon, project: Path) -> None:
    asked(rehearsing, project)
    assert json.loads(agent.run("asks", "--format", "json").out) == rehearsing.call("ask/list")
