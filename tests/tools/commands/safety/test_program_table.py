"""The table of programs that only read: for each, forms that pass and forms that do not."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from ostler.tools.commands import is_read_only, needs_git_guard, parse_command
from ostler.tools.commands.safety.program_table import load_git_forms, load_programs
from tests.support.tables import try_each

FORMS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("program_table.toml").read_text("utf-8"))
NO_PROGRAMS = {name for name in load_programs() if " " in name} | {"find-words", "found-files"}
"""Entries that others refer to."""
PASSES = [command for entry in FORMS.values() for command in entry["passes"]]
ASKS = [command for entry in FORMS.values() for command in entry["asks"]]


@try_each("program", FORMS)
def test_this_only_reads(program: str, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir(exist_ok=True)
    verdicts = {command: is_read_only(parse_command(command), str(tmp_path)) for command in FORMS[program]["passes"]}
    assert {command: verdict.reason for command, verdict in verdicts.items() if not verdict.ok} == {}


@try_each("program", FORMS)
def test_this_is_asked(program: str, tmp_path: Path) -> None:
    verdicts = {command: is_read_only(parse_command(command), str(tmp_path)) for command in FORMS[program]["asks"]}
    assert [command for command, verdict in verdicts.items() if verdict.ok or not verdict.reason] == []


def test_every_program_of_the_table_is_tried_here() -> None:
    assert set(load_programs()) - set(FORMS) - NO_PROGRAMS == set()
    assert all(entry["passes"] and entry["asks"] for name, entry in FORMS.items() if name in load_programs())


def test_every_form_of_git_is_tried_here() -> None:
    tried = {" ".join(command.removeprefix("git ").replace("--no-pager ", "").split()[:2]) for command in PASSES}
    for name in set(load_git_forms()) - {"common", "history"}:
        assert any(each == name or each.split()[0] == name for each in tried), name


@pytest.mark.parametrize(
    "more", [" > f", " >> f", " <> f", " < /dev/tcp/h/1", " &", " | sh", " $x", " `x`", " $(x)", "; rm x", " 2> f"]
)
def test_what_only_reads_does_not_any_more_with_this(more: str, tmp_path: Path) -> None:
    assert [command for command in PASSES if is_read_only(parse_command(command + more), str(tmp_path)).ok] == []


@pytest.mark.parametrize("first", ["X=1 ", "sudo ", "!", "LD_PRELOAD=x ", "> f ", "env ", "./"])
def test_what_only_reads_does_not_any_more_behind_this(first: str, tmp_path: Path) -> None:
    assert [command for command in PASSES if is_read_only(parse_command(first + command), str(tmp_path)).ok] == []


@try_each("program", sorted(set(load_programs()) - NO_PROGRAMS - {"echo", "printf", "test", "["}))
def test_flags_are_allowed_by_list_and_abbreviated_spellings_refused(program: str, tmp_path: Path) -> None:
    for flag in ("--zzzz", "--zzzz=x", "-\u00e9", "--outp=f"):
        assert not is_read_only(parse_command(f"{program} {flag}"), str(tmp_path)).ok


@pytest.mark.parametrize("glob", ["*", "?x", "[!a]x", "-*", "--p*", "a -*", "-- *"])
def test_globs_may_not_become_flags(glob: str, tmp_path: Path) -> None:
    for name in ("a", "--pre=bash", "-x", "+x"):
        (tmp_path / name).touch()
    commands = [f"{program} {glob}" for program in load_programs()]
    assert [command for command in commands if is_read_only(parse_command(command), str(tmp_path)).ok] == []


def test_only_redirections_to_nowhere_from_files_and_copies_of_descriptors_pass(tmp_path: Path) -> None:
    for passes in (
        "ls 2>/dev/null",
        "ls >/dev/null 2>&1",
        "ls &>/dev/null",
        "ls </dev/null",
        "cat < f",
        "cat < ~/f",
        "cat <<< x",
        "wc -w <<< 'a b'",
        "cat << x\nx",
        "cat <<'E' | wc -l\n$x `y`\nE\nls",
        "cat <<-E\n\ta b\n\tE",
    ):
        assert is_read_only(parse_command(passes), str(tmp_path)).ok
    for asks in (
        "ls >/dev/tcp/h/1",
        "ls </dev/tcp/h/1",
        "cat < //dev/tcp/h/1",
        "cat < /dev/../dev/udp/h/1",
        "cat 3< f",
        "cat < *",
        "cat < $HOME",
        "cat << x\n$y\nx",
        "cat << x\n`y`\nx",
        "cat << x\n\\y\nx",
        "cat 3<<x\ny\nx",
        "cat <<'x y'\na\nx y",
        "cat <<x\ny",
        "cat <<x\ny\nx ",
        "cat <<x <<y\na\nx\nb\ny",
        "cat <<x 'a\nb'\nc\nx",
        "cat <<x |\na\nx\nwc",
        "cat <<x > f\na\nx",
        "bash <<x\nls\nx",
        "cat <<x\na\nx\nrm f",
        "cat <<x\na\\\nx\nx\nls",
        "cat <<< $x",
        "cat <<< *",
        "cat <<< ~/x",
        "cat 3<<< x",
        "cat <<< `x`",
        "ls >/dev/stderr",
        "ls >&f",
        "ls <>f",
        "ls >|f",
        "ls >/dev/null/x",
    ):
        assert not is_read_only(parse_command(asks), str(tmp_path)).ok


def test_more_parts_than_a_person_would_read_are_asked(tmp_path: Path) -> None:
    assert is_read_only(parse_command("; ".join(["ls"] * 50)), str(tmp_path)).ok
    assert not is_read_only(parse_command("; ".join(["ls"] * 51)), str(tmp_path)).ok


def test_git_anywhere_in_the_command_needs_the_guard() -> None:
    assert needs_git_guard(parse_command("ls && git status"))
    assert not needs_git_guard(parse_command("echo git status"))
