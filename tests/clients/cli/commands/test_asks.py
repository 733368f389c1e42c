"""`asks`, `answer`, `tools`, `fork`, `completion` on a real daemon."""

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.clients.cli.chat.chat_driver import ChatDriver
from tests.clients.conftest import OSTLER, Cli, CommandResult
from tests.support.daemon import Daemon


def open_ask(daemon: Daemon, folder: Path, what: str = "run touch made") -> dict[str, Any]:
    """An ask that is open in a session of its own."""
    session = daemon.call("session/create", cwd=str(folder))
    with daemon.follow(f"?session={session['id']}&after=0") as stream:
        daemon.call("turn/start", session_id=session["id"], input=what)
        ask: dict[str, Any] = stream.wait_for("ask.opened")["data"]["ask"]
    return ask


def wait_for_turn(daemon: Daemon, ask: dict[str, Any]) -> dict[str, Any]:
    turn: dict[str, Any] = daemon.call("turn/wait", turn_id=ask["turn_id"])
    return turn


def test_asks_are_listed_with_what_can_be_answered(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    ask = open_ask(rehearsal_daemon, project)
    listed = rehearsal_cli.run("asks")
    assert listed.code == 0
    cells = listed.out.rstrip("\n").split("\t")
    assert cells == [
        ask["id"],
        "open",
        "permission",
        ask["session_id"],
        "Bash touch made",
        "allow|allow_always|deny|deny_always",
        str(project),
    ]


def test_asks_show_their_folder_where_it_is_not_this_one(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    ask = open_ask(rehearsal_daemon, project)
    for here, shown in ((project.parent, True), (project, False)):
        with ChatDriver(rehearsal_cli, "asks", cwd=here, terminal=True) as listed:
            assert listed.wait() == 0
            assert (f"in {project}" in listed.output) is shown, listed.output
        with ChatDriver(rehearsal_cli, "attach", ask["session_id"], cwd=here, terminal=True) as attached:
            attached.read_until("│ touch made")
            assert (f"in the folder {project}" in attached.read_until("[y] allow")) is shown
    assert f"folder   {project}" in rehearsal_cli.run("asks", ask["id"]).out


def test_asks_are_chosen_by_session_and_settled_ones_are_left_out(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    first, second = open_ask(rehearsal_daemon, project), open_ask(rehearsal_daemon, project)
    assert rehearsal_cli.run("answer", first["id"], "allow").code == 0

    def ids(*arguments: str) -> list[str]:
        return [ask["id"] for ask in rehearsal_cli.run("asks", "--format", "json", *arguments).json["asks"]]

    assert ids() == [second["id"]]
    assert ids("--all") == [first["id"], second["id"]]
    assert ids("--all", "--session", first["session_id"]) == [first["id"]]


def test_nothing_asked_is_no_failure(rehearsal_cli: Cli) -> None:
    listed = rehearsal_cli.run("asks")
    assert (listed.code, listed.out, listed.err) == (0, "", "Nothing is asked.\n")


def test_on_a_terminal_it_says_how_to_answer(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    ask = open_ask(rehearsal_daemon, project)
    shown = rehearsal_cli.run_in_terminal("asks").out
    assert ask["id"] in shown
    assert "`ostler answer ID CHOICE`" in shown


LINES = 'call Bash {"command": "# only a look\\ntouch made"}'


def test_one_ask_is_shown_whole(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    ask = open_ask(rehearsal_daemon, project, LINES)
    listed = rehearsal_cli.run("asks").out.split("\t")
    assert listed[4] == "Bash # only a look ⏎ touch made"
    shown = rehearsal_cli.run("asks", ask["id"][-6:])
    assert (shown.code, shown.out.splitlines()[4:7]) == (
        0,
        ["? Run this command:", "  │ # only a look", "  │ touch made"],
    )
    assert f"`ostler answer {ask['id']} allow|" in shown.err
    assert rehearsal_cli.run("asks", ask["id"], "--format", "json").json == rehearsal_daemon.call(
        "ask/get", ask_id=ask["id"]
    )


def test_an_answer_says_what_it_was_about(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    ask = open_ask(rehearsal_daemon, project, LINES)
    assert rehearsal_cli.run("answer", ask["id"], "allow").err == "  Bash\n  │ # only a look\n  │ touch made\n"
    other = open_ask(rehearsal_daemon, project, LINES)
    changed = rehearsal_cli.run("answer", other["id"], "allow", "--input", '{"command": "pwd"}')
    assert changed.err == "  Bash\n  │ pwd\n"


@pytest.mark.parametrize("choice", ["allow", "allow_always"])
def test_a_yes_lets_the_call_run(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path, choice: str) -> None:
    ask = open_ask(rehearsal_daemon, project)
    answered = rehearsal_cli.run("answer", ask["id"], choice)
    assert (answered.code, answered.out) == (0, f"Answered {ask['id']}: {choice}\n")
    assert wait_for_turn(rehearsal_daemon, ask)["denials"] == []


def test_a_no_without_words_ends_the_turn_unless_it_is_told_otherwise(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    plain, going_on = open_ask(rehearsal_daemon, project), open_ask(rehearsal_daemon, project)
    rehearsal_cli.run("answer", plain["id"], "deny")
    rehearsal_cli.run("answer", going_on["id"], "deny", "--no-interrupt")
    assert wait_for_turn(rehearsal_daemon, plain)["reason"] == "interrupted"
    assert wait_for_turn(rehearsal_daemon, going_on)["reason"] == "completed"


def test_a_no_with_words_tells_them_to_the_model(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    ask = open_ask(rehearsal_daemon, project)
    rehearsal_cli.run("answer", ask["id"], "deny", "--message", "use pnpm")
    turn = wait_for_turn(rehearsal_daemon, ask)
    assert turn["reason"] == "completed"
    assert "use pnpm" in turn["result_text"]


def test_the_input_can_be_changed(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    ask = open_ask(rehearsal_daemon, project)
    rehearsal_cli.run("answer", ask["id"], "allow", "--input", '{"command": "pwd"}')
    assert str(project) in wait_for_turn(rehearsal_daemon, ask)["result_text"]


def test_a_rule_of_ones_own_is_remembered(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    ask = open_ask(rehearsal_daemon, project)
    rehearsal_cli.run("answer", ask["id"], "allow_always", "--rule", "Bash(touch other)", "--scope", "session")
    wait_for_turn(rehearsal_daemon, ask)
    again = rehearsal_cli.run("run", "run touch other", "--session", ask["session_id"], "--format", "json")
    assert (again.code, again.json["turn"]["denials"]) == (0, [])


@pytest.mark.parametrize("part", [slice(0, -4), slice(-5, None)], ids=["start", "end"])
def test_a_part_of_the_id_is_enough(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path, part: slice) -> None:
    ask = open_ask(rehearsal_daemon, project)
    assert rehearsal_cli.run("answer", ask["id"][part], "allow").out == f"Answered {ask['id']}: allow\n"


def test_a_part_that_fits_several_is_refused(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    first, second = open_ask(rehearsal_daemon, project), open_ask(rehearsal_daemon, project)
    ran = rehearsal_cli.run("answer", "k_", "allow")
    assert (ran.code, "could be any of" in ran.err) == (1, True)
    assert all(ask["id"] in ran.err for ask in (first, second))


def test_an_unknown_ask_is_said(rehearsal_cli: Cli) -> None:
    ran = rehearsal_cli.run("answer", "k_nothing", "allow")
    assert (ran.code, ran.err) == (1, "ostler: There is no ask 'k_nothing'. `ostler asks` lists what is open.\n")


def test_of_two_answers_at_once_one_wins_and_the_other_is_told_which(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    ask = open_ask(rehearsal_daemon, project)

    def answer(choice: str) -> CommandResult:
        return rehearsal_cli.run("answer", ask["id"], choice)

    with ThreadPoolExecutor(4) as pool:
        ran = list(pool.map(answer, ["allow", "deny", "allow_always", "deny_always"]))
    winner = rehearsal_daemon.call("ask/get", ask_id=ask["id"])["answer"]["choice"]
    assert sorted(one.code for one in ran) == [0, 1, 1, 1]
    assert [one.out for one in ran if one.code == 0] == [f"Answered {ask['id']}: {winner}\n"]
    losers = [one.err for one in ran if one.code == 1]
    assert all(line.startswith("ostler: Too late: ") and line.endswith(f"with {winner}.\n") for line in losers)


def test_an_ask_that_nobody_waits_for_any_more_is_told_as_such(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    ask = open_ask(rehearsal_daemon, project)
    rehearsal_daemon.call("turn/interrupt", turn_id=ask["turn_id"])
    wait_for_turn(rehearsal_daemon, ask)
    ran = rehearsal_cli.run("answer", ask["id"], "allow")
    assert (ran.code, ran.err) == (1, f"ostler: Too late: the ask {ask['id']} is cancelled.\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["allow", "--message", "x"], "--message: not together with allow"),
        (["deny", "--rule", "Bash"], "--rule: not together with deny"),
        (["cancel", "--input", "{}"], "--input: not together with cancel"),
        (["allow", "--input", "{"], "--input is not JSON"),
        (["allow", "--input", "[]"], "--input is not a JSON object"),
    ],
)
def test_a_wrong_answer_is_exit_2_before_anybody_is_asked(cli: Cli, arguments: list[str], complaint: str) -> None:
    ran = cli.run("--no-start", "answer", "k_1", *arguments)
    assert (ran.code, complaint in ran.err) == (2, True), ran.err


def test_an_answer_that_the_ask_does_not_take_is_said(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    ask = open_ask(rehearsal_daemon, project)
    ran = rehearsal_cli.run("answer", ask["id"], "approve")
    assert (ran.code, "this ask takes allow" in ran.err) == (2, True)


@pytest.mark.without_daemon
def test_every_choice_and_scope_of_the_protocol_can_be_given() -> None:
    from ostler.clients.cli.commands.asks import CHOICE_OPTIONS, ScopeName
    from ostler.protocol.ask import Answer, Scope

    tags = {get_args(member)[1].tag for member in get_args(get_args(Answer)[0])}
    assert tags == CHOICE_OPTIONS.keys()
    assert get_args(Scope) == get_args(ScopeName)


@pytest.mark.without_daemon
def test_every_mode_of_the_protocol_can_be_given() -> None:
    from ostler.clients.cli.commands.run import ModeName
    from ostler.protocol.session import Mode

    assert get_args(Mode) == get_args(ModeName)


def test_a_call_is_shown_with_what_people_said_about_it(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    ask = open_ask(rehearsal_daemon, project)
    rehearsal_cli.run("answer", ask["id"], "allow")
    wait_for_turn(rehearsal_daemon, ask)
    assert "  (allowed by another terminal)" in rehearsal_cli.run("show", ask["session_id"]).out


def test_tools_are_lines_with_tabs(rehearsal_cli: Cli, rehearsal_daemon: Daemon) -> None:
    listed = rehearsal_cli.run("tools")
    rows = {cells[0]: cells[1:] for cells in (line.split("\t") for line in listed.out.splitlines())}
    assert rows["Bash"][:3] == ["writes", "on", "built-in"]
    assert rows["Read"][0] == "reads"
    assert rehearsal_cli.run("tools", "--format", "json").json == rehearsal_daemon.call("tool/list")


def test_tools_of_a_session_are_those_that_it_has(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    session = rehearsal_daemon.call("session/create", cwd=str(project), tools="read-only")
    rows = [line.split("\t") for line in rehearsal_cli.run("tools", "--session", session["id"]).out.splitlines()]
    assert {row[0] for row in rows if row[2] == "on"} >= {"Read", "Grep", "Glob"}
    assert "Bash" not in {row[0] for row in rows if row[2] == "on"}


def test_tools_on_a_terminal_are_columns(rehearsal_cli: Cli) -> None:
    assert "\t" not in rehearsal_cli.run_in_terminal("tools").out


def test_a_fork_has_the_history_up_to_a_message(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    session_id = rehearsal_cli.run("run", "read README.md", "--format", "json", cwd=project).json["session_id"]
    messages = rehearsal_daemon.call("session/messages", session_id=session_id)["messages"]
    whole = rehearsal_cli.run("fork", session_id, "--title", "another way")
    assert (whole.code, whole.err) == (0, f"Go on there with `ostler attach {whole.out.strip()}`.\n")
    short = rehearsal_cli.run("fork", session_id, "--at", messages[0]["id"], "--format", "json").json
    assert short["root_id"] == short["id"]

    def count(one: str) -> int:
        return len(rehearsal_daemon.call("session/messages", session_id=one)["messages"])

    assert (count(whole.out.strip()), count(short["id"])) == (len(messages), 1)
    assert rehearsal_daemon.call("session/get", session_id=whole.out.strip())["title"] == "another way"


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


def test_json_of_asks_is_what_the_wire_says(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    open_ask(rehearsal_daemon, project)
    assert json.loads(rehearsal_cli.run("asks", "--format", "json").out) == rehearsal_daemon.call("ask/list")


TWO_QUESTIONS = json.dumps(
    {
        "questions": [
            {"question": "Which one?", "header": "Drink", "options": [{"label": "tea"}, {"label": "decline"}]},
            {
                "question": "With what?",
                "multiSelect": True,
                "options": [{"label": "milk"}, {"label": "sugar", "description": "brown"}],
            },
        ]
    }
)


def fetch_answer(daemon: Daemon, ask: dict[str, Any]) -> Any:
    return daemon.call("ask/get", ask_id=ask["id"])["answer"]


@pytest.mark.parametrize(
    ("words", "answers", "notes"),
    [
        (["2"], ["b"], {}),
        (["B"], ["b"], {}),
        (["2: not on Mondays"], ["b"], {"Which one?": "not on Mondays"}),
        (["something", "else = better"], ["something else = better"], {}),
        (["which=a"], ["a"], {}),
    ],
)
def test_a_question_is_answered_by_number_label_or_words(
    rehearsal_cli: Cli,
    rehearsal_daemon: Daemon,
    project: Path,
    words: list[str],
    answers: list[str],
    notes: dict[str, str],
) -> None:
    ask = open_ask(rehearsal_daemon, project, "ask me which one: a, b or c")
    shown = rehearsal_cli.run("asks", ask["id"])
    assert [line.strip() for line in shown.out.splitlines()[4:]] == ["? Which one?", "1  a", "2  b", "3  c"]
    assert f"`ostler answer {ask['id']} ANSWER | decline`" in shown.err
    answered = rehearsal_cli.run("answer", ask["id"], *words)
    assert (answered.code, answered.out) == (0, f"Answered {ask['id']}: answer\n")
    assert fetch_answer(rehearsal_daemon, ask) == {
        "choice": "answer",
        "answers": {"Which one?": answers},
        "notes": notes,
    }
    assert wait_for_turn(rehearsal_daemon, ask)["reason"] == "completed"


def test_several_questions_are_answered_by_name(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    ask = open_ask(rehearsal_daemon, project, f"call AskUserQuestion {TWO_QUESTIONS}")
    unclear = rehearsal_cli.run("answer", ask["id"], "tea")
    assert (unclear.code, "say QUESTION=ANSWER for each" in unclear.err) == (2, True)
    several = rehearsal_cli.run("answer", ask["id"], "1=1,2")
    assert (several.code, "Only one of them can be chosen" in several.err) == (2, True)
    assert rehearsal_cli.run("answer", ask["id"], "drink=decline", "2=milk, Sugar").code == 0
    assert fetch_answer(rehearsal_daemon, ask)["answers"] == {
        "Which one?": ["decline"],
        "With what?": ["milk", "sugar"],
    }


def test_a_question_is_declined_with_words(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    ask = open_ask(rehearsal_daemon, project, "ask me which one: a, b or c")
    assert rehearsal_cli.run("answer", ask["id"], "decline", "not", "now").code == 0
    assert fetch_answer(rehearsal_daemon, ask) == {"choice": "decline", "message": "not now"}


def test_words_after_a_choice_that_takes_none_are_refused(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    ask = open_ask(rehearsal_daemon, project)
    assert "nothing more may follow allow" in rehearsal_cli.run("answer", ask["id"], "allow", "it").err
    unknown = rehearsal_cli.run("answer", ask["id"], "perhaps")
    assert (unknown.code, "'perhaps' is no answer to this" in unknown.err) == (2, True)
    assert rehearsal_cli.run("answer", ask["id"], "deny", "use", "make").code == 0
    assert fetch_answer(rehearsal_daemon, ask)["message"] == "use make"


def test_a_plan_is_shown_whole_approved_with_a_mode_and_rejected_with_words(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    ask = open_ask(rehearsal_daemon, project, "plan write x to made.txt then read made.txt")
    shown = rehearsal_cli.run("asks", ask["id"])
    assert "  │ 1. write x to made.txt" in shown.out.splitlines()
    assert "approve [--mode MODE] | reject WORDS" in shown.err
    rehearsal_cli.run("answer", ask["id"], "reject", "not", "today")
    assert fetch_answer(rehearsal_daemon, ask) == {"choice": "reject", "message": "not today"}
    assert "not today" in wait_for_turn(rehearsal_daemon, ask)["result_text"]
    assert not (project / "made.txt").exists()
    ask = open_ask(rehearsal_daemon, project, "plan write x to made.txt then read made.txt")
    assert rehearsal_cli.run("answer", ask["id"], "approve", "--mode", "acceptEdits").code == 0
    assert wait_for_turn(rehearsal_daemon, ask)["reason"] == "completed"
    assert (project / "made.txt").exists()
    assert rehearsal_daemon.call("session/get", session_id=ask["session_id"])["mode"] == "acceptEdits"
