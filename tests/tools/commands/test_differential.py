"""What bash makes of generated lines is what we said, and the comparison itself notices what it has to."""

import random
from pathlib import Path

import pytest

from tests.tools.commands.differential import (
    Claim,
    Comparison,
    build_canary,
    compare_batch,
    find_differences,
    run_for_real,
    take_snapshot,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return build_canary(tmp_path)


def test_bash_does_nothing_but_what_we_said(project: Path) -> None:
    found = Comparison()
    compare_batch(random.SystemRandom().randrange(1_000_000_000), 2_500, project, found)
    assert not found.problems, "\n".join(found.problems)
    assert found.read_only > 150, "many of them only read"
    assert found.ruled > 80, "and the rule allows many"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("ls {x}>/dev/null", "bash ran ('ls',)"), ("echo 2\\\n>/dev/null", "bash ran ('echo',)"), ("x=1; ls {x}",
        "bash set ['x']"),
        ("ls *.py", "bash ran ('ls', 'a.py', 'b.py')"), ("ls a; cat b", "bash ran ('ls', 'a')"),
        ("echo {PATH}>/dev/null", "bash set ['PATH']"),
        ("ls {x}; y=2", "bash set ['y']"),
    ],
)  # fmt: skip
def test_the_comparison_notices(project: Path, line: str, problem: str) -> None:
    known = ("ls {x}", "echo 2", "echo {PATH}", "ls *.py", "cat b")
    said = Claim(line, line, frozenset(tuple(words.split()) for words in known))
    told = [text for _, text in find_differences([said], project)]
    assert any(text.startswith(problem) for text in told), told


def test_the_canary_notices(project: Path) -> None:
    before = take_snapshot(project)
    list(find_differences([Claim("", "echo x >planted", frozenset({("echo", "x")}))], project))
    assert take_snapshot(project) != before
    if told := run_for_real(["cat links/out", "cat a"], project):
        assert told == ["the file outside the roots was shown by 'cat links/out'"]
