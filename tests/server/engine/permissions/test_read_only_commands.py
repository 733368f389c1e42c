"""What only reads runs unasked, and is kept to reading."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.tools.sandbox import probe_sandbox
from tests.support.driver import Harness
from tests.support.model_replies import bash
from tests.support.projects import explain_command, get_last_output, list_decisions, make_project, run_calls

SANDBOX = probe_sandbox()
needs_sandbox = pytest.mark.skipif(not SANDBOX.works, reason=f"no sandbox here: {SANDBOX.reason}")


def run_git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def make_repository(harness: Harness) -> Path:
    folder = make_project(harness)
    run_git(folder, "init", "-q")
    return folder


@needs_sandbox
def test_a_read_only_command_runs_unasked_and_in_the_sandbox(harness: Harness) -> None:
    driver = run_calls(harness, bash("git status | head"), folder=make_repository(harness))
    assert list_decisions(driver) == [("allow", "read_only")]
    assert get_last_output(driver)["sandboxed"] is True
    assert "No commits yet" in driver.fetch_result_texts()[0]


def test_a_command_that_a_rule_allowed_runs_outside_the_sandbox(harness: Harness) -> None:
    driver = run_calls(harness, bash("touch it"), rules={"allow": ["Bash(touch it)"]})
    assert get_last_output(driver)["sandboxed"] is False


@pytest.mark.parametrize("stream", ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2", "/dev/stdout", "/dev/stdin"])
def test_the_streams_of_a_command_are_its_own_and_not_the_daemon_s(harness: Harness, stream: str) -> None:
    # The stderr of this daemon is a file in its own folder.
    driver = harness.open_session(rules={"allow": ["Bash"]})
    for command in (f"echo one >{stream}", f"cat {stream}", f"printf x | tee {stream}"):
        assert explain_command(driver, command)["behavior"] == "allow", command


@pytest.mark.parametrize("stream", ["/dev/stderr", "/dev/fd/1"])
def test_what_is_said_to_a_stream_runs_unasked_where_a_rule_allows_it(harness: Harness, stream: str) -> None:
    driver = run_calls(harness, bash(f"echo one >{stream}"), rules={"allow": ["Bash"]})
    assert driver.fetch_result_texts() == ["one"]


def test_a_stream_is_no_place_outside_the_roots(harness: Harness) -> None:
    assert explain_command(harness.open_session(), "cat /dev/stdin")["behavior"] == "allow"


def test_what_only_looks_like_a_stream_is_a_file_like_any_other(harness: Harness) -> None:
    folder = make_project(harness)
    (folder / "link").symlink_to("/dev/stderr")
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "deeper").symlink_to(folder / "a" / "b")
    up = "../" * len(folder.parts)
    driver = harness.open_session(folder=folder)
    assert explain_command(driver, f"cat {folder}/deeper/{up}dev/stderr")["behavior"] == "ask", "by its words it is one"
    driver = harness.open_session(folder=folder, rules={"allow": ["Bash"]})
    for command in ("cat link", "echo x >link", f"cat {harness.daemon.home}/dev/stderr"):
        assert explain_command(driver, command)["behavior"] == "ask", command
    (folder / "dev").mkdir()
    (folder / "dev" / "stderr").symlink_to(harness.daemon.home / "token")
    assert explain_command(driver, "cat ./dev/stderr")["behavior"] == "ask"


@pytest.mark.parametrize(
    "command",
    ["ls; touch x", "ls > x", "cat $FILE", "ls `pwd`", "sed -i s/a/b/ x", "find . -delete", "sort -o x x", "curl x"],
)
def test_a_command_that_may_do_more_than_read_is_asked(harness: Harness, command: str) -> None:
    driver = harness.open_session()
    found = explain_command(driver, command)
    assert (found["behavior"], found["read_only"]) == ("ask", False)
    assert found["reason"]


@pytest.mark.parametrize("command", ["cat /etc/hostname", "ls ..", "cd / && ls", "cat ~/.profile", "cat link/x"])
def test_reading_outside_the_roots_asks(harness: Harness, command: str) -> None:
    folder = make_project(harness)
    (folder / "link").symlink_to("/etc")
    driver = harness.open_session(folder=folder)
    assert explain_command(driver, command)["behavior"] == "ask"


@pytest.mark.parametrize(
    ("key", "value"),
    [("core.fsmonitor", "touch planted"), ("filter.x.clean", "touch planted"), ("include.path", "other")],
)
def test_hostile_repository_config_asks_or_is_switched_off(harness: Harness, key: str, value: str) -> None:
    folder = make_repository(harness)
    (folder / "a").write_text("a\n")
    (folder / ".gitattributes").write_text("* filter=x\n")
    run_git(folder, "add", ".gitattributes")
    run_git(folder, "config", key, value)
    driver = run_calls(harness, bash("git status"), bash("git diff"), folder=folder)
    assert not (folder / "planted").exists()
    assert all(behavior == "deny" or by == "read_only" for behavior, by in list_decisions(driver))


def test_a_filter_that_cannot_be_switched_off_asks(harness: Harness) -> None:
    folder = make_repository(harness)
    run_git(folder, "config", "filter.x.clean", "touch planted")
    driver = harness.open_session(folder=folder)
    assert explain_command(driver, "git status")["behavior"] == "ask"


def test_a_program_of_the_workspace_that_comes_first_in_path_does_not_run(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(PATH=f"./node_modules/.bin:{os.environ['PATH']}")
    folder = make_project(harness)
    planted = folder / "node_modules" / ".bin" / "ls"
    planted.parent.mkdir(parents=True)
    planted.write_text("#!/bin/sh\necho planted\n")
    planted.chmod(0o755)
    given = {"PATH": f"{planted.parent}:./node_modules/.bin:{os.environ['PATH']}"}
    driver = run_calls(harness, bash("ls"), folder=folder, env=given)
    assert list_decisions(driver) == [("allow", "read_only")]
    assert "planted" not in driver.fetch_result_texts()[0]
    assert "node_modules" in driver.fetch_result_texts()[0]


@needs_sandbox
def test_a_read_only_command_cannot_write_even_where_its_program_would(own_harness: Callable[..., Harness]) -> None:
    """A program outside the roots, under a name of the table, stands for every mistake in the table."""
    harness = own_harness()
    programs = harness.folder / "programs"
    programs.mkdir()
    cat = programs / "cat"
    cat.write_text('#!/bin/sh\nid -u\ntouch "$PWD/written" /tmp/written-by-cat && echo wrote\n')
    cat.chmod(0o755)
    driver = run_calls(harness, bash("cat x"), env={"PATH": f"{programs}:{os.environ['PATH']}"})
    assert list_decisions(driver) == [("allow", "read_only")]
    assert not (driver.folder / "written").exists()
    assert "wrote" not in driver.fetch_result_texts()[0]
    assert not Path("/tmp/written-by-cat").exists()


def test_without_bubblewrap_the_table_alone_decides(own_harness: Callable[..., Harness], tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "ls", "git"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    driver = run_calls(own_harness(PATH=str(programs)), bash("ls"))
    assert list_decisions(driver) == [("allow", "read_only")]
    assert get_last_output(driver)["sandboxed"] is False


def test_aliases_and_profiles_of_the_person_do_not_change_what_a_word_means(
    own_harness: Callable[..., Harness], tmp_path: Path
) -> None:
    person = tmp_path / "person"
    person.mkdir()
    for name in (".bashrc", ".bash_profile", ".profile"):
        (person / name).write_text("alias ls='touch planted'\nls() { touch planted; }\nexport -f ls\n")
    functions = {"BASH_FUNC_ls%%": "() { touch planted; }"}
    harness = own_harness(HOME=str(person), BASH_ENV=str(person / ".bashrc"), **functions)
    driver = run_calls(harness, bash("ls"), env={"BASH_ENV": str(person / ".bashrc")})
    assert not (driver.folder / "planted").exists()
