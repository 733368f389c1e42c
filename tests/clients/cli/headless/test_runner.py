"""`ostler run` on a real daemon: what it prints, and how it ends."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import OSTLER, Cli
from tests.support.daemon import Daemon
from tests.support.messages_api.failures import wrong_key
from tests.support.messages_api.replies import calls, message, says
from tests.support.messages_api.server import ScriptedApi

MODEL = "claude-sonnet-5"


def parse_lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_text_is_on_stdout_once_and_the_rest_on_stderr(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "read README.md", cwd=project)
    assert ran.code == 0
    assert ran.out.splitlines() == ["Now: read README.md.", "Read README.md: 2 lines, the first is “hello”"]
    assert "README.md … ✓" in ran.err
    assert "`rehearsal`" in ran.err


def test_the_prompt_can_come_from_stdin(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "-", cwd=project, typed="read README.md\n")
    assert (ran.code, "“hello”" in ran.out) == (0, True)


def test_stdin_is_read_for_nothing_else(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "run cat", "--allow", "Bash(cat)", cwd=project, typed="secret")
    assert "secret" not in ran.out + ran.err


def test_json_is_one_object_and_nothing_else_on_stdout(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "read README.md", "--format", "json", cwd=project)
    assert ran.code == 0
    assert (ran.json["type"], ran.json["turn"]["reason"]) == ("result", "completed")
    assert ran.json["turn"]["session_id"] == ran.json["session_id"]


def test_stream_json_is_the_events_of_the_turn_and_then_the_result(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "read README.md", "--format", "stream-json", cwd=project)
    *events, result = parse_lines(ran.out)
    types = [event["type"] for event in events]
    assert types[-1] == "turn.ended"
    assert {"message.delta", "message.completed", "tool.queued", "tool.started", "tool.completed"} <= set(types)
    assert result["turn"] == events[-1]["data"]["turn"]


def test_a_folder_can_be_given(rehearsal_cli: Cli, project: Path) -> None:
    assert rehearsal_cli.run("run", "read README.md", "--cwd", str(project)).code == 0


def test_what_would_be_asked_is_refused_and_is_exit_5_although_the_turn_completed(
    rehearsal_cli: Cli, project: Path
) -> None:
    ran = rehearsal_cli.run("run", "run touch made", "--format", "json", cwd=project)
    assert ran.code == 5
    assert ran.json["turn"]["reason"] == "completed"
    assert [denial["allow_with"] for denial in ran.json["turn"]["denials"]] == ["Bash(touch made)"]


def test_a_refused_call_is_told_with_the_rule_that_would_allow_it(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "run touch made", cwd=project)
    assert "✗ Bash was refused" in ran.err
    assert "Bash(touch made)" in ran.err


def test_a_rule_on_the_command_line_lets_it_pass(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "run touch made", "--allow", "Bash(touch:*)", cwd=project)
    assert (ran.code, (project / "made").exists()) == (0, True)


def test_a_deny_rule_is_stronger(rehearsal_cli: Cli, project: Path) -> None:
    assert (
        rehearsal_cli.run(
            "run", "run touch made", "--allow", "Bash(touch:*)", "--deny", "Bash(touch:*)", cwd=project
        ).code
        == 5
    )


def test_the_mode_can_be_given(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "write hello to new.txt", "--mode", "acceptEdits", cwd=project)
    assert (ran.code, (project / "new.txt").exists()) == (0, True), ran


def test_as_many_requests_as_it_may_make_is_exit_3(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "read README.md", "--max-requests", "1", "--format", "json", cwd=project)
    assert (ran.code, ran.json["turn"]["reason"]) == (3, "max_requests")


def test_its_time_is_over_is_exit_124(rehearsal_cli: Cli, project: Path) -> None:
    arguments = ("--allow", "Bash(tail -f README.md)", "--timeout", "0.5", "--format", "json")
    ran = rehearsal_cli.run("run", "run tail -f README.md", *arguments, cwd=project)
    assert (ran.code, ran.json["turn"]["reason"]) == (124, "timeout")


def test_a_session_goes_on_by_its_id_and_as_the_newest_of_its_folder(
    rehearsal_cli: Cli, project: Path, tmp_path: Path
) -> None:
    first = rehearsal_cli.run("run", "read README.md", "--format", "json", cwd=project).json["session_id"]
    rehearsal_cli.run("run", "read nothing", cwd=tmp_path)
    second = rehearsal_cli.run("run", "read README.md", "--continue", "--format", "json", cwd=project)
    third = rehearsal_cli.run("run", "read README.md", "--session", first, "--format", "json")
    assert [(ran.code, ran.json["session_id"]) for ran in (second, third)] == [(0, first), (0, first)]


def test_a_new_session_can_be_given_a_title(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    ran = rehearsal_cli.run("run", "read README.md", "--title", "fix login", "--format", "json", cwd=project)
    session_id = ran.json["session_id"]
    assert rehearsal_daemon.call("session/get", session_id=session_id)["title"] == "fix login"
    assert rehearsal_cli.run("run", "read README.md", "--session", session_id, "--title", "other").code == 2


def test_a_session_in_the_archive_says_how_it_comes_out(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    session_id = str(rehearsal_daemon.call("session/create", cwd=str(project))["id"])
    rehearsal_daemon.call("session/archive", session_id=session_id)
    refused = rehearsal_cli.run("run", "read README.md", "--session", session_id, "--format", "json")
    assert (refused.code, refused.json["error"]["code"]) == (1, "conflict")
    assert f"`ostler archive --undo {session_id}`" in refused.err
    assert rehearsal_cli.run("archive", "--undo", session_id).code == 0
    assert rehearsal_cli.run("run", "read README.md", "--session", session_id).code == 0


def test_an_ask_in_a_session_that_waits_for_people_is_refused_here_too(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    session = rehearsal_daemon.call("session/create", cwd=str(project))
    ran = rehearsal_cli.run("run", "run touch made", "--session", session["id"], "--format", "json")
    assert (ran.code, ran.json["turn"]["status"]) == (5, "ended")
    (ask,) = rehearsal_daemon.call("ask/list", status=None)["asks"]
    assert ask["answer"]["choice"] == "deny"


def test_continuing_where_nothing_was_begun_is_said(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "go on", "--continue", "--format", "json", cwd=project)
    assert (ran.code, ran.json["turn"], ran.json["error"]["code"]) == (1, None, "session_not_found")
    assert "Leave out --continue" in ran.json["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["   "],
        ["x", "--session", "s_1", "--continue"],
        ["x", "--session", "s_1", "--allow", "Bash(touch:*)"],
        ["x", "--continue", "--trust"],
        ["x", "--schema", "nowhere.json"],
        ["x", "--max-budget-usd", "much"],
        ["x", "--timeout", "nan"],
        ["x", "--timeout", "inf"],
        ["x", "--timeout", "0"],
        ["x", "--max-requests", "many"],
        ["x", "--mode", "wild"],
        ["x", "--nonsense"],
        [],
    ],
)
def test_a_wrong_call_is_exit_2_and_has_its_result_too(rehearsal_cli: Cli, arguments: list[str]) -> None:
    ran = rehearsal_cli.run("run", *arguments, "--format", "json")
    assert ran.code == 2
    assert (ran.json["type"], ran.json["error"]["code"]) == ("result", "usage")
    assert ran.err.startswith("ostler: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x", "--max-budget-usd", "much"], "--max-budget-usd much: it is no amount of dollars like 0.50"),
        (["x", "--model", ""], "--model: String should have at least 1 character"),
        (["a\udcff"], "the prompt is not UTF-8"),
    ],
)
def test_a_wrong_call_is_told_in_the_words_that_were_typed(rehearsal_cli: Cli, arguments: list[str], said: str) -> None:
    assert rehearsal_cli.run("run", *arguments).err == f"ostler: {said}\n"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_prompt_on_stdin_that_is_not_utf_8_is_said(rehearsal_cli: Cli, locale: str) -> None:
    environment = {**rehearsal_cli.environment, "LC_ALL": locale}
    ran = subprocess.run([OSTLER, "run", "-"], input=b"a\xff", env=environment, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, b"ostler: the prompt is not UTF-8\n")


def test_a_session_that_is_not_there_says_where_to_look(rehearsal_cli: Cli) -> None:
    ran = rehearsal_cli.run("run", "x", "--session", "s_none", "--format", "json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "session_not_found")
    assert ran.err == "ostler: There is no session 's_none'. `ostler sessions --all` lists what there is.\n"


def test_a_rule_that_is_none_is_exit_2(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "x", "--allow", "Bash(", "--format", "json", cwd=project)
    assert (ran.code, ran.json["error"]["code"]) == (2, "usage")


def test_an_unknown_option_is_exit_2_and_stdout_stays_empty(rehearsal_cli: Cli) -> None:
    ran = rehearsal_cli.run("run", "x", "--nonsense")
    assert (ran.code, ran.out) == (2, "")


def test_a_wrong_option_has_its_line_in_a_stream_too(rehearsal_cli: Cli) -> None:
    ran = rehearsal_cli.run("run", "x", "--timeout", "0", "--format=stream-json")
    assert (ran.code, [result["error"]["code"] for result in parse_lines(ran.out)]) == (2, ["usage"])


def test_a_folder_that_is_gone_is_said(rehearsal_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", str(OSTLER), "run", "x", "--format", "json"]
    ran = subprocess.run(
        command, cwd=tmp_path / "gone", env=rehearsal_cli.environment, capture_output=True, timeout=60, check=False
    )
    assert (ran.returncode, json.loads(ran.stdout)["error"]["code"]) == (2, "usage")
    assert b"--cwd" in ran.stderr


def test_a_schema_is_sent_with_the_turn(rehearsal_cli: Cli, project: Path) -> None:
    (project / "list.json").write_text("[]")
    ran = rehearsal_cli.run("run", "x", "--schema", "list.json", cwd=project)
    assert (ran.code, "not a JSON object" in ran.err) == (2, True)


@pytest.mark.parametrize("depth", [98, 101, 300, 600, 3000])
def test_a_schema_that_is_nested_too_deep_is_exit_2_and_has_its_result_too(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path, depth: int
) -> None:
    (project / "deep.json").write_text('{"type": "object", "a": ' + '{"a":' * depth + "1" + "}" * (depth + 1))
    ran = rehearsal_cli.run("run", "x", "--schema", "deep.json", "--format", "json", cwd=project)
    assert (ran.code, ran.json["error"]["code"], ran.json["session_id"]) == (2, "usage", None)
    assert "nested deeper than 100" in ran.json["error"]["message"]
    assert rehearsal_daemon.call("session/list")["sessions"] == []


@pytest.mark.parametrize("arguments", [["--schema", "text.json"], ["--max-budget-usd", "1", "--model", "unknown"]])
def test_a_turn_that_is_refused_leaves_no_session(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path, arguments: list[str]
) -> None:
    (project / "text.json").write_text('{"type": "string"}')
    ran = rehearsal_cli.run("run", "x", *arguments, "--format", "json", cwd=project)
    assert ran.code == (2 if "--schema" in arguments else 4)
    assert (ran.json["session_id"], ran.json["turn"]) == (None, None)
    assert rehearsal_daemon.call("session/list")["sessions"] == []


def test_a_session_that_was_there_before_stays_where_a_turn_is_refused(rehearsal_cli: Cli, project: Path) -> None:
    (project / "text.json").write_text('{"type": "string"}')
    session_id = rehearsal_cli.run("run", "read README.md", "--format", "json", cwd=project).json["session_id"]
    arguments = ("--schema", "text.json", "--continue", "--format", "json")
    assert rehearsal_cli.run("run", "x", *arguments, cwd=project).json["session_id"] == session_id
    assert rehearsal_cli.run("run", "read README.md", "--session", session_id).code == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["--cwd", "/nowhere/at/all"], "bad_folder"), (["--mode", "bypassPermissions"], "mode_forbidden")],
)
def test_a_folder_that_does_not_exist_and_a_forbidden_mode_are_wrong_usage(
    rehearsal_cli: Cli, project: Path, arguments: list[str], word: str
) -> None:
    ran = rehearsal_cli.run("run", "x", *arguments, "--format", "json", cwd=project)
    assert (ran.code, ran.json["error"]["code"], ran.json["session_id"]) == (2, word, None)
    chat = rehearsal_cli.run("chat", *arguments, cwd=project)
    assert (chat.code, len(chat.err.splitlines())) == (2, 1)


def test_no_daemon_and_none_to_be_started_is_a_failure_with_a_result(cli: Cli) -> None:
    ran = cli.run("--no-start", "run", "x", "--format", "stream-json")
    assert (ran.code, parse_lines(ran.out)[-1]["error"]["code"]) == (1, "daemon_unreachable")


def test_a_model_that_refuses_is_exit_1_with_its_reason(api: ScriptedApi, home: Path, project: Path) -> None:
    api.always(wrong_key())
    with Daemon(home, environment=api.environment):
        ran = Cli(home).run("run", "hello", "--model", MODEL, "--format", "json", cwd=project)
    assert (ran.code, ran.json["turn"]["reason"]) == (1, "failed")
    assert ran.json["turn"]["error"]["code"] == "model_error"


def test_a_used_up_budget_is_exit_4(api: ScriptedApi, home: Path, project: Path) -> None:
    api.always(message(calls("Read", {"file_path": "README.md"})), otherwise=message(says("never")))
    with Daemon(home, environment=api.environment):
        arguments = ("--model", MODEL, "--max-budget-usd", "0.000001", "--format", "json")
        ran = Cli(home).run("run", "hello", *arguments, cwd=project)
    assert (ran.code, ran.json["turn"]["reason"]) == (4, "budget")


def test_a_real_model_is_not_called_a_rehearsal(api: ScriptedApi, home: Path, project: Path) -> None:
    api.always(message(says("Good ", "day.")))
    with Daemon(home, environment=api.environment):
        ran = Cli(home).run("run", "hello", "--model", MODEL, cwd=project)
    assert (ran.code, ran.out, ran.err) == (0, "Good day.\n", "")
