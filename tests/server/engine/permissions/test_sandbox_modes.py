"""[sandbox] mode: where commands run, and what they cannot do there."""

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.tools.sandbox import probe_sandbox
from tests.support.driver import Harness
from tests.support.hooks import make_project_with_hook
from tests.support.model_replies import bash
from tests.support.projects import explain_command, get_last_output, list_decisions, make_project, run_calls

SANDBOX = probe_sandbox()
needs_sandbox = pytest.mark.skipif(not SANDBOX.works, reason=f"no sandbox here: {SANDBOX.reason}")
ALL = {"allow": ["Bash"]}


def make_path_without_bubblewrap(folder: Path) -> str:
    """A PATH with what commands need, and no sandbox."""
    programs = folder / "programs"
    programs.mkdir()
    for name in ("bash", "ls", "git", "touch", "rg"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    return str(programs)


@needs_sandbox
@pytest.mark.parametrize("mode", ["on", "required"])
def test_every_command_runs_in_the_sandbox_and_writes_in_the_workspace_alone(
    own_harness: Callable[..., Harness], mode: str
) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODE=mode)
    outside = harness.folder / "outside"
    commands = ["touch inside", f"touch {outside}", f"cat {harness.daemon.home / 'token'}"]
    driver = run_calls(harness, *map(bash, commands[:2]), rules=ALL)
    assert all(data["call"]["output"]["sandboxed"] for data in driver.list_event_data("tool.completed"))
    assert (driver.folder / "inside").exists()
    assert not outside.exists()
    assert explain_command(driver, commands[2])["by"] == "safety"


@needs_sandbox
def test_a_command_in_the_sandbox_has_no_network(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    harness.daemon.call("config/set", key="sandbox.mode", value="on")
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        assert "connected" not in run_calls(harness, bash(command), rules=ALL).fetch_result_texts()[0]
    with socket.create_server(("127.0.0.1", 0)) as server:
        harness.daemon.call("config/set", key="sandbox.mode", value="off")
        command = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        assert "connected" in run_calls(harness, bash(command), rules=ALL).fetch_result_texts()[0]


@needs_sandbox
@pytest.mark.parametrize("name", [".git/hooks/pre-commit", ".envrc", ".ostler/settings.json", ".vscode/tasks.json"])
def test_protected_names_of_the_workspace_cannot_be_written_in_the_sandbox(
    own_harness: Callable[..., Harness], name: str
) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODE="on")
    folder = make_project(harness)
    # Put together at run time, so that nobody sees the name beforehand.
    hidden = f"D={name[:2]}; mkdir -p \"$(dirname $D'{name[2:]}')\"; echo planted > $D'{name[2:]}'; true"
    driver = run_calls(harness, bash(hidden), folder=folder, rules=ALL)
    assert list_decisions(driver) == [("allow", "rule")]
    file = folder / name
    assert not file.exists() or "planted" not in file.read_text()


@needs_sandbox
@pytest.mark.parametrize("name", ["scripts/h.sh", "shared-hooks/pre-commit"])
def test_scripts_that_trusted_hooks_or_git_run_cannot_be_written_in_the_sandbox(
    own_harness: Callable[..., Harness], name: str
) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODE="on")
    folder = make_project_with_hook(harness, "Stop", "sh scripts/h.sh")
    for each in ("scripts/h.sh", "shared-hooks/pre-commit"):
        (folder / each).parent.mkdir()
        (folder / each).write_text("true\n")
    for arguments in (["init", "-q"], ["config", "core.hooksPath", "shared-hooks"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    # Put together at run time, so that nobody sees the name beforehand.
    hidden = f"D={name[:2]}; echo planted > $D'{name[2:]}'; mv $D'{name[2:-1]}'? other; true"
    driver = run_calls(harness, bash(hidden), folder=folder, rules=ALL, trust=True)
    assert list_decisions(driver) == [("allow", "rule")]
    assert (folder / name).read_text() == "true\n"


HOOK_FOLDERS = {
    "not there yet": ("git init -q; git config core.hooksPath hooks", ".", "hooks"),
    "nor what is above it": ("git init -q; git config core.hooksPath tools/git/hooks", ".", "tools/git/hooks"),
    "of a repository below": ("git init -q n; cd n; mkdir h; git config core.hooksPath h", ".", "n/h"),
    "of one below, not there yet": ("git init -q n; cd n; git config core.hooksPath h", ".", "n/h"),
    "of a repository around": ("git init -q; mkdir -p n/h; git config core.hooksPath n/h", "n", "h"),
}


@needs_sandbox
def test_no_hook_can_be_made_in_the_sandbox_where_git_takes_them_from(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODE="on")
    for name, (setup, inside, hooks) in HOOK_FOLDERS.items():
        project = make_project(harness)
        subprocess.run(["bash", "-ec", setup], cwd=project, check=True)
        folder = project / inside
        # In a script, so that nobody sees the name beforehand.
        (folder / "job.sh").write_text(f"mkdir -p {hooks}; echo planted > {hooks}/pre-commit; echo done > made\n")
        driver = run_calls(harness, bash("sh job.sh"), folder=folder, rules=ALL)
        assert list_decisions(driver) == [("allow", "rule")], name
        assert (folder / "made").exists(), name
        assert not (folder / hooks / "pre-commit").exists(), name
        assert (folder / hooks).exists() == ("mkdir" in setup), name


@needs_sandbox
def test_simple_file_commands_of_accept_edits_run_in_the_workspace_sandbox(harness: Harness) -> None:
    folder = make_project(harness)
    (folder / "f").write_text("x")
    driver = run_calls(harness, bash("cp f g"), bash("mkdir d && mv f d"), folder=folder, mode="acceptEdits")
    outputs = [data["call"]["output"] for data in driver.list_event_data("tool.completed")]
    assert [output["sandboxed"] for output in outputs] == [True, True]
    assert (folder / "d" / "f").exists()
    assert (folder / "g").exists()


@needs_sandbox
def test_accept_edits_asks_where_the_sandbox_cannot_protect_a_name(harness: Harness) -> None:
    folder = make_project(harness)
    (folder / "f").write_text("x")
    (folder / ".envrc").symlink_to("f")
    driver = harness.open_session(folder=folder, mode="acceptEdits")
    found = explain_command(driver, "cp f g")
    assert found["behavior"] == "ask"
    assert "is a link" in found["reason"]


def test_required_without_bubblewrap_runs_nothing(own_harness: Callable[..., Harness], tmp_path: Path) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODE="required", PATH=make_path_without_bubblewrap(tmp_path))
    driver = run_calls(harness, bash("touch it"), bash("ls"), rules=ALL)
    assert not (driver.folder / "it").exists()
    assert all("sandbox" in text for text in driver.fetch_result_texts())
    assert all(result["is_error"] for result in driver.fetch_results())


def test_off_runs_everything_outside(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODE="off")
    driver = run_calls(harness, bash("ls"))
    assert list_decisions(driver) == [("allow", "read_only")]
    assert get_last_output(driver)["sandboxed"] is False


@needs_sandbox
def test_an_ask_rule_is_skipped_in_the_sandbox_only_where_the_configuration_says_so(
    own_harness: Callable[..., Harness],
) -> None:
    given = {"ask": ["Bash(make:*)"], "allow": ["Bash(make:*)"]}
    harness = own_harness()
    harness.daemon.call("config/set", key="sandbox.mode", value="on")
    driver = harness.open_session(rules=given)
    assert explain_command(driver, "make")["behavior"] == "ask"
    harness.daemon.call("config/set", key="sandbox.skips_ask_rules", value=True)
    assert explain_command(driver, "make")["behavior"] == "allow"
    harness.daemon.call("config/set", key="sandbox.mode", value="auto")
    assert explain_command(driver, "make")["behavior"] == "ask"


@needs_sandbox
def test_the_sandbox_stands_in_for_no_ask_rule_where_the_command_cannot_be_seen_through_or_runs_outside_of_it(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness()
    for key, value in (("mode", "on"), ("skips_ask_rules", True)):
        harness.daemon.call("config/set", key=f"sandbox.{key}", value=value)
    harness.daemon.call("config/set", key="permissions.network_reads", value=True)
    driver = harness.open_session(rules={"ask": ["Bash(make:*)", "Bash(docker:*)"], "allow": ["Bash"]})
    asked = {command: explain_command(driver, command)["behavior"] for command in (
        "make", "timeout 5 make", "sh < f", "python3 -c 'import x'", "docker ps"
    )}  # fmt: skip
    assert asked == {
        "make": "allow",
        "timeout 5 make": "allow",
        "sh < f": "ask",
        "python3 -c 'import x'": "ask",
        "docker ps": "ask",
    }


@needs_sandbox
def test_a_guarded_name_that_a_sandboxed_command_makes_in_a_folder_is_set_aside_and_told(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODE="on")
    # So that its words say nothing of it: what they say is asked about before.
    hidden = "import os; os.mkdir('pkg'); open('pkg/.np' + 'mrc', 'w').write('evil\\n')"
    driver = run_calls(harness, bash(f'python3 -c "{hidden}"'), rules=ALL)
    assert not (driver.folder / "pkg/.npmrc").exists()
    assert (driver.folder / "pkg/set-aside.npmrc.1").read_text() == "evil\n"
    assert "pkg/set-aside.npmrc.1" in driver.fetch_result_texts()[0]


@needs_sandbox
def test_a_sandboxed_command_makes_no_unix_socket_unless_a_person_allows_it(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODE="on")
    attempt = bash("python3 -c 'import socket; socket.socket(socket.AF_UNIX); print(\"made\")'")
    assert "PermissionError" in run_calls(harness, attempt, rules=ALL).fetch_result_texts()[0]
    harness.daemon.call("config/set", key="sandbox.unix_sockets", value="allow")
    assert "made" in run_calls(harness, attempt, rules=ALL).fetch_result_texts()[0]


@needs_sandbox
@pytest.mark.parametrize(
    ("setting", "value", "script", "named"),
    [
        ("MEMORY_MB", "64", "import time; held = bytearray(150 << 20); time.sleep(60)", "memory_mb"),
        ("PROCESSES", "40", "import os, time; [os.fork() for _ in range(7)]; time.sleep(60)", "processes"),
        ("FILE_MB", "1", "import signal; signal.signal(25, 0); open('large', 'wb').write(bytes(5 << 20))", "file_mb"),
    ],
)
def test_a_limit_of_the_sandbox_ends_a_command_and_is_named(
    own_harness: Callable[..., Harness], setting: str, value: str, script: str, named: str
) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODE="on", **{f"OSTLER_SANDBOX__{setting}": value})
    driver = run_calls(harness, bash(f'python3 -c "{script}"'), rules=ALL)
    text = driver.fetch_result_texts()[0]
    assert named in text or (setting == "PROCESSES" and "BlockingIOError" in text), text
