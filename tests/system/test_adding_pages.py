"""`docs/adding-a-tool.md` and `docs/adding-a-setting.md`, followed to the letter in one copy of the tree."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.adding_pages import SETTING_PAGE, TOOL_PAGE, read_steps
from tests.support.repository import DOCS, ROOT

ROOMS: Final = ("protocol", "storage", "tools", "server", "clients")
SHARED: Final = ("tests/conftest.py", "tests/__init__.py", "tests/support", "tests/tools", "pyproject.toml")
MEMBERS_TO_MEET: Final = 15
FILES_OF_A_TOOL: Final = 4


def follow(page: Path, tree: Path) -> tuple[set[str], list[list[str]]]:
    """Does what a page says; returns the files that it touched, and the tests that it says to run."""
    touched, tests = set(), []
    for step in read_steps(page):
        match step.kind:
            case "sh":
                command = step.text.split()
                assert command[:3] == [".venv/bin/python", "-m", "pytest"]
                tests.append(command[3:])
            case "diff":
                _change(tree / step.file, step.text)
                touched.add(step.file)
            case _:
                assert not (tree / step.file).exists(), f"{step.file} is there already"
                (tree / step.file).write_text(step.text)
                touched.add(step.file)
    return touched, tests


def _change(file: Path, diff: str) -> None:
    lines = [(line[:1] or " ", line[1:]) for line in diff.splitlines()]
    before = "".join(f"{text}\n" for sign, text in lines if sign != "+")
    after = "".join(f"{text}\n" for sign, text in lines if sign != "-")
    content = file.read_text()
    assert content.count(before) == 1, f"{file} does not have these lines once:\n{before}"
    file.write_text(content.replace(before, after))


def copy_tree(target: Path) -> None:
    leave = shutil.ignore_patterns("__pycache__")
    for name in (*(f"{room}/ostler" for room in ROOMS), *SHARED):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=leave)
        elif source.exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)


@pytest.mark.timeout(300)
def test_who_follows_both_pages_has_a_tool_with_a_setting_that_passes_its_tests(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    tool_files, tool_tests = follow(DOCS / TOOL_PAGE, tmp_path)
    assert len(tool_files) <= FILES_OF_A_TOOL, tool_files
    setting_files, setting_tests = follow(DOCS / SETTING_PAGE, tmp_path)
    assert len(setting_files - {"tests/tools/files/test_file_hash.py"}) == 2, setting_files
    changed = sorted(name for name in tool_files | setting_files if name.endswith(".py"))
    # The first page's tests pass as they are after the second one, too: both are run at once.
    wanted = list(dict.fromkeys(word for test in (*tool_tests, *setting_tests) for word in test))
    rooms = os.pathsep.join(str(tmp_path / room) for room in ROOMS)
    environment = {**os.environ, "PYTHONPATH": rooms, "PYTHONDONTWRITEBYTECODE": "1"}
    for program in (["pytest", "-p", "no:cacheprovider", *wanted], ["ruff", "check", "--no-cache", *changed]):
        done = subprocess.run(
            [sys.executable, "-m", *program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(program)}\n{done.stdout}{done.stderr}"


def test_a_page_whose_lines_are_gone_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    _change(tmp_path / "a.py", " one\n+and\n two\n")
    assert (tmp_path / "a.py").read_text() == "one\nand\ntwo\n"
    with pytest.raises(AssertionError, match="does not have these lines once"):
        _change(tmp_path / "a.py", " one\n-two\n")


def test_a_plain_tool_meets_fifteen_members() -> None:
    """Those that stand before the few that only some tools have."""
    source = (ROOT / "tools/ostler/tools/tool.py").read_text()
    body = source[source.index("class Tool(ABC") :]
    first = body[: body.index("# What few tools say")]
    members = re.findall(r"^    (?:async )?(?:def )?(\w+)(?:\(self|:)", first, re.MULTILINE)
    assert {"name", "Input", "Output", "run", "permissions", "render"} <= set(members)
    assert len(members) <= MEMBERS_TO_MEET, members
