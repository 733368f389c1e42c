"""Whole commands that only say something, and the files of a project that choose what such a command runs."""

from pathlib import Path
from typing import Final

import pytest

from ostler.protocol.ids import SessionId
from ostler.tools.commands import is_read_only, may_be_chosen, parse_command, part_is_read_only
from ostler.tools.commands.safety.fixed_commands import MAX_FIXED_WORDS, find_chooser, load_fixed_commands
from ostler.tools.commands.safety.program_table import Program, ReadAccess, build_access, parse_arguments
from ostler.tools.context import SessionView
from ostler.tools.shell.bash_policy import judge_nowait
from tests.tools.commands.safety.test_days import list_asked

CHOOSERS: Final = [
    ("cargo --version", "rust-toolchain.toml", "[toolchain]"), ("rustc -V", "rust-toolchain", "nightly"),
    ("time cargo --version", "rust-toolchain", "x"), ("yarn --version", ".yarnrc.yml", "yarnPath: x.cjs"),
    ("yarn -v", ".yarnrc", "yarn-path x"), ("mvn --version", ".mvn/jvm.config", "-javaagent:x.jar"),
    ("gradle --version", "gradle.properties", "org.gradle.java.home=x"), ("dotnet --version", "global.json", "{}"),
    ("poetry --version", ".poetry/plugins/x", ""),
    ("pnpm --version", "package.json", '{"packageManager": "pnpm@1.0.0"}'),
    ("npm ls", ".npmrc", "onload-script=x.js"), ("npm explain x", ".npmrc", "onload-script=x.js"),
    ("npm --version", ".npmrc", "onload-script=x.js"), ("npm pkg get name", ".npmrc", "onload-script=x"),
    ("npm run", ".npmrc", "onload-script=x"),
    ("node --version", ".tool-versions", "nodejs path:/x"), ("python3 -V", "mise.toml", 'python = "path:x"'),
    ("cargo version && ls", "rust-toolchain", "x"), ("timeout 5 yarn --version", ".yarnrc.yml", "plugins: []"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "name", "text"), CHOOSERS)
def test_where_a_file_of_the_project_chooses_what_runs_a_version_is_asked_about(
    command: str, name: str, text: str, tmp_path: Path
) -> None:
    below = tmp_path / "packages" / "one"
    below.mkdir(parents=True)
    assert is_read_only(parse_command(command), str(below)).ok
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    for folder in (tmp_path, below):
        verdict = is_read_only(parse_command(command), str(folder))
        assert not verdict.ok
        assert "chooses what it runs" in verdict.reason
    assert list_asked([command], tmp_path), "nor is it judged without a look at the disk"


@pytest.mark.parametrize(("name", "text"), [(".tool-versions", "nodejs 20.1.0"), (".npmrc", "save-exact=true")])
def test_a_file_that_only_names_a_release_chooses_nothing(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert is_read_only(parse_command("node --version; npm ls"), str(tmp_path)).ok


def test_a_file_that_cannot_be_read_is_taken_for_one_that_chooses(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").mkdir()
    assert not is_read_only(parse_command("npm ls"), str(tmp_path)).ok


def test_a_file_that_is_too_long_to_be_searched_is_taken_for_one_that_chooses(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text("# x\n" * 100_000)
    assert not is_read_only(parse_command("npm ls"), str(tmp_path)).ok


def test_a_device_is_taken_for_a_file_that_chooses(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").symlink_to("/dev/null")
    assert not is_read_only(parse_command("npm ls"), str(tmp_path)).ok


def test_a_file_that_vanishes_or_is_closed_to_us_is_taken_for_one_that_chooses(tmp_path: Path) -> None:
    # A link to itself can be seen but not opened, by root neither.
    (tmp_path / ".npmrc").symlink_to(".npmrc")
    assert not is_read_only(parse_command("npm ls"), str(tmp_path)).ok
    # As memory of our own can: this page of it is not mapped.
    (tmp_path / ".npmrc").unlink()
    (tmp_path / ".npmrc").symlink_to("/proc/self/mem")
    assert not is_read_only(parse_command("npm ls"), str(tmp_path)).ok


def test_a_file_above_the_real_folder_chooses_and_more_levels_than_are_looked_at_ask(tmp_path: Path) -> None:
    inside = tmp_path / "project" / "packages"
    inside.mkdir(parents=True)
    (tmp_path / "project" / "rust-toolchain").write_text("nightly")
    (tmp_path / "elsewhere").symlink_to(inside)
    assert find_chooser(["rust-toolchain"], str(tmp_path / "elsewhere")) is not None
    deep = tmp_path / Path(*["d"] * 70)
    deep.mkdir(parents=True)
    assert find_chooser(["no-such-file"], str(tmp_path)) is None
    assert find_chooser(["no-such-file"], str(deep)) is not None


def test_what_a_file_may_choose_is_no_part_that_reads_and_is_not_decided_without_a_look(tmp_path: Path) -> None:
    view = SessionView(SessionId("s_1"), str(tmp_path), str(tmp_path), (str(tmp_path),), "default", home="/nowhere")
    for command in ("cargo --version", "npm ls"):
        assert not part_is_read_only(parse_command(command).parts[0])
        assert judge_nowait(command, view, str) is None
    assert part_is_read_only(parse_command("ls").parts[0])
    assert judge_nowait("ls", view, str) is not None


def test_whether_a_file_may_choose_is_known_by_the_words() -> None:
    assert may_be_chosen(parse_command("cargo --version").parts[0])
    assert not may_be_chosen(parse_command("ls").parts[0])


@pytest.mark.parametrize("more", [" x", " --x", " -e x", " > f", " --version x", " @x"])
def test_a_fixed_command_with_anything_more_is_none(more: str, tmp_path: Path) -> None:
    known = load_fixed_commands()
    lines = {" ".join(words) for words in known if words[0] in {"node", "cargo", "java", "make", "tsc", "mvn", "set"}}
    assert [line for line in lines if is_read_only(parse_command(line + more), str(tmp_path)).ok] == []


def test_no_fixed_command_is_longer_than_what_is_looked_for() -> None:
    assert max(map(len, load_fixed_commands())) <= MAX_FIXED_WORDS


def test_a_form_of_a_table_hands_on_what_chooses_it() -> None:
    form = Program(unless=("x",))
    assert build_access(form, parse_arguments(form, [])) == ReadAccess(choosers=("x",))
