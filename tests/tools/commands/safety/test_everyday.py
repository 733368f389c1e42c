"""Everyday commands: what only reads needs no question, and its near misses still do."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId
from ostler.tools.context import SessionView
from ostler.tools.shell.bash_policy import Judgement, judge, seems_read_only
from ostler.tools.tool import Allow

TABLE = tomllib.loads(Path(__file__).with_name("everyday.toml").read_text("utf-8"))
PASSES = [command for group in TABLE.values() for command in group["passes"]]
ASKS = [command for group in TABLE.values() for command in group["asks"]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("everyday")
    (folder / "src").mkdir()
    for name in ("README.md", "data.csv", "package.json", "src/app.py", "src/util.py"):
        (folder / name).write_text("{}\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def judge_in(project: Path, command: str) -> Judgement:
    view = SessionView(
        SessionId("s_1"), str(project), str(project), (str(project),), "default", home=f"{project}-daemon"
    )
    return judge(command, view)


@pytest.mark.parametrize("group", TABLE)
def test_an_everyday_command_that_only_reads_needs_no_question(group: str, project: Path) -> None:
    checks = {command: judge_in(project, command).check for command in TABLE[group]["passes"]}
    assert {command: check for command, check in checks.items() if not isinstance(check, Allow)} == {}
    assert [command for command in checks if not seems_read_only(command)] == [], "plan mode would refuse it"


@pytest.mark.parametrize("group", TABLE)
def test_a_near_miss_of_an_everyday_command_is_asked_about(group: str, project: Path) -> None:
    asks = TABLE[group]["asks"]
    assert [command for command in asks if isinstance(judge_in(project, command).check, Allow)] == []


def test_the_two_tables_are_long_and_of_about_one_length() -> None:
    assert len(set(PASSES)) >= 200
    assert len(set(ASKS)) >= len(set(PASSES)) * 0.9
