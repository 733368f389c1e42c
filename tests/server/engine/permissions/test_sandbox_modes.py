"""[sandbox] mode: where commands run, and what they cannot do there."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.tools.sandbox import probe_sandbox
from tests.support.driver import Stage
from tests.support.model_replies import bash
from tests.support.projects import decisions, explained_command, output, project, runs

SANDBOX = probe_sandbox()
needs_sandbox = pytest.mark.skipif(not SANDBOX.works, reason=f"no sandbox here: {SANDBOX.reason}")
ALL = {"allow": ["Bash"]}


def without_bubblewrap(folder: Path) -> str:
    """A PATH with what commands need, and no sandbox."""
    programs = folder / "programs"
    programs.mkdir()
    for name in ("bash", "ls", "git", "touch", "rg"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    return str(programs)


@needs_sandbox
@pytest.mark.parametrize("mode", ["on", "required"])
def test_every_command_runs_in_the_sandbox_and_writes_in_the_workspace_alone(
    own_stage: Callable[..., Stage], mode: str
) -> None:
    stage = own_stage(OSTLER_SANDBOX__MODE=mode)
    outside = stage.folder / "outside"
    commands = ["touch inside", f"touch {outside}", f"cat {stage.daemon.home / 'token'}"]
    talk = runs(stage, *map(bash, commands[:2]), rules=ALL)
    assert all(data["call"]["output"]["sandboxed"] for data in talk.all("tool.completed"))
    assert (talk.folder / "inside").exists()
    assert not outside.exists()
    assert explained_command(talk, commands[2])["by"] == "safety"


@needs_sandbox
def test_a_command_in_the_sandbox_has_no_network(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    stage.daemon.call("config/set", key="sandbox.mode", value="on")
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        assert "connected" not in runs(stage, bash(command), rules=ALL).result_texts()[0]
    with socket.create_server(("127.0.0.1", 0)) as server:
        stage.daemon.call("config/set", key="sandbox.mode", value="off")
        command = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        assert "connected" in runs(stage, bash(command), rules=ALL).result_texts()[0]


@needs_sandbox
@pytest.mark.parametrize("name", [".git/hooks/pre-commit", ".envrc", ".ostler/settings.json", ".vscode/tasks.json"])
def test_protected_names_of_the_workspace_cannot_be_written_in_the_sandbox(
    own_stage: Callable[..., Stage], name: str
) -> None:
    stage = own_stage(OSTLER_SANDBOX__MODE="on")
    folder = project(stage)
    # Put together at run time, so that nobody sees the name beforehand.
    hidden = f"D={name[:2]}; mkdir -p \"$(dirname $D'{name[2:]}')\"; echo planted > $D'{name[2:]}'; true"
    talk = runs(stage, bash(hidden), folder=folder, rules=ALL)
    assert decisions(talk) == [("allow", "rule")]
    file = folder / name
    assert not file.exists() or "planted" not in file.read_text()


def test_required_without_bubblewrap_runs_nothing(own_stage: Callable[..., Stage], tmp_path: Path) -> None:
    stage = own_stage(OSTLER_SANDBOX__MODE="required", PATH=without_bubblewrap(tmp_path))
    talk = runs(stage, bash("touch it"), bash("ls"), rules=ALL)
    assert not (talk.folder / "it").exists()
    assert all("sandbox" in text for text in talk.result_texts())
    assert all(result["is_error"] for result in talk.results())


def test_off_runs_everything_outside(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_SANDBOX__MODE="off")
    talk = runs(stage, bash("ls"))
    assert decisions(talk) == [("allow", "read_only")]
    assert output(talk)["sandboxed"] is False


@needs_sandbox
def test_an_ask_rule_is_skipped_in_the_sandbox_only_where_the_configuration_says_so(
    own_stage: Callable[..., Stage],
) -> None:
    given = {"ask": ["Bash(make:*)"], "allow": ["Bash(make:*)"]}
    stage = own_stage()
    stage.daemon.call("config/set", key="sandbox.mode", value="on")
    talk = stage.talk(rules=given)
    assert explained_command(talk, "make")["behavior"] == "ask"
    stage.daemon.call("config/set", key="sandbox.skips_ask_rules", value=True)
    assert explained_command(talk, "make")["behavior"] == "allow"
    stage.daemon.call("config/set", key="sandbox.mode", value="auto")
    assert explained_command(talk, "make")["behavior"] == "ask"
