"""Hooks that are commands: what they get, what their ends mean, and that nothing of them is left."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from ostler.protocol.errors import StorageFailed
from ostler.protocol.ids import CallId
from ostler.server.hooks import HookCall, Outcome
from tests.server.hooks.hooking import BASH_CALL, Project, command, parse_declared
from tests.support.tool_calls import is_alive, poll_until

pytestmark = pytest.mark.anyio

PYTHON = shlex.quote(sys.executable)
# A child in the group, one in a session of its own, one that forked twice and dropped its parents, one that ignores
# the request to end.
FAMILY = f"""
echo $$ > shell
(echo $BASHPID > group; exec sleep 1000) &
setsid bash -c 'echo $$ > session; exec sleep 1000' &
{PYTHON} -c '
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("twice.new", "w").write(str(os.getpid()))
        os.rename("twice.new", "twice")
        signal.pause()
' &
(trap "" TERM; echo $BASHPID > stubborn; while :; do sleep 0.1; done) &
"""
NAMES = ("shell", "group", "session", "twice", "stubborn")
ALL_THERE = "while ! [ -s group -a -s session -a -s twice -a -s stubborn ]; do sleep 0.01; done\n"


def exists(pid: int) -> bool:
    """As a zombie too."""
    return Path(f"/proc/{pid}").exists()


def list_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


async def test_it_gets_json_on_stdin_and_runs_in_the_project_folder(project: Project) -> None:
    project.variables = {"MINE": "kept"}
    seen = "$CLAUDE_PROJECT_DIR|$OSTLER_PROJECT_DIR|$PWD|$MINE|$#|$-"
    await project.run("PreToolUse", command(f'cat > got; echo "{seen}" > seen; umask > mask'))
    assert json.loads((project.folder / "got").read_bytes()) == {**BASH_CALL, "hook_event_name": "PreToolUse"}
    *folders, mine, arguments, flags = (project.folder / "seen").read_text().strip().split("|")
    assert folders == [str(project.folder)] * 3
    assert (mine, arguments) == ("kept", "0")
    assert "i" not in flags
    assert (project.folder / "mask").read_text().strip() == "0022"


async def test_no_key_and_no_token_is_in_its_environment(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-7351")
    monkeypatch.setenv("OSTLER_TOKEN", "t-7352")
    await project.run("PreToolUse", command("env > seen"))
    seen = (project.folder / "seen").read_text()
    assert "sk-7351" not in seen
    assert "t-7352" not in seen


async def test_exit_0_without_words_says_nothing(project: Project) -> None:
    outcome = await project.run("PreToolUse", command("true"))
    assert (outcome.decision, outcome.warnings, outcome.context) == (None, (), ())
    assert [(run.outcome, run.exit_code) for run in outcome.runs] == [("passed", 0)]


async def test_exit_2_denies_a_call_with_stderr(project: Project) -> None:
    outcome = await project.run("PreToolUse", command("echo no >&1; echo not this >&2; exit 2"))
    assert (outcome.decision, outcome.reason) == ("deny", "not this")
    assert outcome.by == "user hook PreToolUse[0].hooks[0]"
    (run,) = outcome.runs
    assert (run.outcome, run.exit_code, run.stdout, run.stderr) == ("denied", 2, "no\n", "not this\n")


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("UserPromptSubmit", {"block": "stay"}),
        ("Stop", {"block": "stay"}),
        ("PostToolUse", {"context": ("stay",)}),
        ("PostToolUseFailure", {"context": ("stay",)}),
        ("SessionStart", {"messages": ("stay",)}),
        ("Notification", {"messages": ("stay",)}),
        ("PermissionRequest", {"decision": "deny", "reason": "stay"}),
    ],
)
async def test_exit_2_says_no_as_far_as_the_event_knows_one(project: Project, event: str, told: dict[str, Any]) -> None:
    outcome = await project.run(event, command("echo stay >&2; exit 2"))
    fields = ("decision", "reason", "block", "context", "messages", "stop")
    defaults = {name: getattr(Outcome(), name) for name in fields}
    assert {name: getattr(outcome, name) for name in fields} == {**defaults, **told}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo oh >&2; exit 1", "it ended with exit code 1: oh"),
        ("no-such-program", "it ended with exit code 127"),
        ("kill -9 $$", "signal 9 ended it"),
        ("echo '{\"decision\":'", "begins like JSON and is none"),
    ],
)
async def test_any_other_end_is_a_warning_and_no_decision(project: Project, text: str, words: str) -> None:
    outcome = await project.run("PreToolUse", command(text))
    assert outcome.decision is None
    assert words in outcome.warnings[0]
    assert outcome.runs[0].outcome == "failed"


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
@pytest.mark.parametrize("text", ["exit 1", "kill -9 $$", "echo '{'", "sleep 1000"])
async def test_a_policys_hook_that_does_not_give_its_word_denies(project: Project, event: str, text: str) -> None:
    outcome = await project.run(event, command(text, timeout=0.3), source="policy")
    assert outcome.decision == "deny"
    assert "policy" in outcome.reason


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart"])
async def test_plain_words_are_context_for_a_prompt_and_a_session(project: Project, event: str) -> None:
    outcome = await project.run(event, command("echo the branch is main"))
    assert outcome.context == ("the branch is main",)


async def test_plain_words_before_a_call_are_nothing(project: Project) -> None:
    outcome = await project.run("PreToolUse", command("echo allow"))
    assert (outcome.decision, outcome.context, outcome.warnings) == (None, (), ())


async def test_words_for_the_model_are_bounded(project: Project) -> None:
    outcome = await project.run("UserPromptSubmit", command("head -c 50000 /dev/zero | tr '\\0' x"))
    assert outcome.context == ("x" * 10_000 + "… (40000 characters left out)",)
    assert len(outcome.runs[0].stdout) == 10_000


async def test_a_hook_that_prints_a_hundred_megabytes_is_read_to_its_end_and_cut(project: Project) -> None:
    text = "head -c 100000000 /dev/zero | tr '\\0' x; head -c 2000000 /dev/zero >&2; echo done > done; exit 2"
    outcome = await project.run("UserPromptSubmit", command(text))
    assert (project.folder / "done").exists()
    (run,) = outcome.runs
    assert (run.exit_code, len(run.stdout), len(run.stderr)) == (2, 10_000, 10_000)


async def test_no_more_than_a_megabyte_of_an_output_is_kept(project: Project) -> None:
    outcome = await project.run("UserPromptSubmit", command("head -c 3000000 /dev/zero | tr '\\0' x"))
    assert outcome.context == ("x" * 10_000 + f"… ({2**20 - 10_000} characters left out)",)


async def test_a_hook_need_not_read_its_stdin(project: Project) -> None:
    big = {"command": "x" * 10_000_000}
    outcome = await project.run("PreToolUse", command("echo no >&2; exit 2"), tool_input=big)
    assert outcome.decision == "deny"
    outcome = await project.run("PreToolUse", command("exec <&-; exit 2"), tool_input=big)
    assert outcome.decision == "deny"
    outcome = await project.run("PreToolUse", command("wc -c > size"), tool_input=big)
    assert int((project.folder / "size").read_text()) > 10_000_000
    assert outcome.warnings == ()


async def test_half_a_surrogate_pair_and_a_huge_number_reach_a_hook(project: Project) -> None:
    given = {"command": "\ud800", "number": 10**30}
    outcome = await project.run("PreToolUse", command("cat > got"), tool_input=given)
    assert outcome.warnings == ()
    assert json.loads((project.folder / "got").read_bytes())["tool_input"] == given


async def test_bytes_that_are_no_utf_8_are_shown_with_replacements(project: Project) -> None:
    outcome = await project.run("PreToolUse", command(r"printf 'ung\xfcltig \x93so\x94' >&2; exit 2"))
    assert (outcome.decision, outcome.reason) == ("deny", "ung�ltig �so�")
    outcome = await project.run("UserPromptSubmit", command("head -c 5000 /dev/urandom; printf '\\0\\xff'"))
    assert outcome.block is None
    json.dumps([run.as_json() for run in outcome.runs]).encode()


@pytest.mark.usefixtures("short_grace")
async def test_nobody_survives_the_end_of_a_hook(project: Project) -> None:
    outcome = await project.run("PreToolUse", command(FAMILY + ALL_THERE + "exit 2"))
    assert outcome.decision == "deny"
    pids = project.read_pids(*NAMES)
    assert len(pids) == len(NAMES)
    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.usefixtures("short_grace")
async def test_nobody_survives_the_time_limit_of_a_hook(project: Project) -> None:
    outcome = await project.run("PreToolUse", command(FAMILY + "trap '' TERM; while :; do sleep 0.1; done", timeout=2))
    assert outcome.decision is None
    assert outcome.runs[0].outcome == "timed_out"
    assert outcome.runs[0].exit_code is None
    assert outcome.warnings == (
        f"The user hook PreToolUse[0].hooks[0] ({outcome.runs[0].shown}) failed: it took longer than 2 s.",
    )
    assert [pid for pid in project.read_pids(*NAMES) if is_alive(pid)] == []
    assert len(project.read_pids("shell")) == 1


@pytest.mark.usefixtures("short_grace")
async def test_nobody_survives_a_cancellation(project: Project) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: project.run("PreToolUse", command(FAMILY + "wait")))
        await poll_until(lambda: len(project.read_pids(*NAMES)) == len(NAMES))
        assert all(is_alive(pid) for pid in project.read_pids(*NAMES))
        group.cancel_scope.cancel()
    assert [pid for pid in project.read_pids(*NAMES) if is_alive(pid)] == []
    assert len(project.processes.started) == len(project.processes.ended) == 1


async def test_a_hook_is_the_leader_of_a_session_of_its_own(project: Project) -> None:
    await project.run("PreToolUse", command("echo $$ > pid; cut -d' ' -f6 /proc/$$/stat > session"))
    assert project.read_pids("pid") == project.read_pids("session")


async def test_many_hooks_leave_no_descriptor_open_and_no_zombie(project: Project) -> None:
    await project.run("PreToolUse", command("true"))
    before = list_descriptors()
    await project.run("PreToolUse", *(command(f"exit {number % 3} # {number}") for number in range(30)))
    assert list_descriptors() == before
    assert not any(exists(pid) for _, pid, _ in project.processes.started)


async def test_it_does_not_begin_before_its_start_is_stored(project: Project) -> None:
    class Full:
        def __init__(self) -> None:
            self.pid = 0

        async def record_start(self, call_id: CallId, pid: int, start_time: str) -> None:
            self.pid = pid
            raise StorageFailed("the disk is full")

        def record_end(self, call_id: CallId, pid: int) -> None: ...

    full = Full()
    project.processes = full  # type: ignore[assignment]
    runner = project.make_runner(*parse_declared("PreToolUse", command("touch ran")))
    with pytest.raises(StorageFailed):
        await runner.run(HookCall("PreToolUse", BASH_CALL))
    assert full.pid
    assert not is_alive(full.pid)
    assert not (project.folder / "ran").exists()


async def test_a_folder_that_is_gone_is_a_warning(project: Project) -> None:
    project.folder.rmdir()
    outcome = await project.run("PreToolUse", command("touch ran"))
    assert "exit code 125" in outcome.warnings[0]


async def test_a_command_that_cannot_be_started_is_a_warning(project: Project) -> None:
    outcome = await project.run("PreToolUse", command("true " + "x" * 200_000))
    assert "could not be started" in outcome.warnings[0]
    assert outcome.runs[0].outcome == "failed"


async def test_a_folder_with_odd_characters_is_just_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a 'b' $(touch bad) \n; -x"
    folder.mkdir()
    project = Project(folder)
    await project.run("PreToolUse", command('pwd > "$CLAUDE_PROJECT_DIR/here"'))
    assert (folder / "here").read_text() == f"{folder}\n"
    assert os.listdir(folder) == ["here"]
    assert os.listdir(tmp_path) == [folder.name]
