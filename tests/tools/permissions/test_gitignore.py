"""Path patterns of rules, compared with what git itself says of the same patterns."""

import subprocess
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostler.tools.permissions import BadPattern, compile_path
from tests.support.examples import count_examples

NAMES = ("a", "b", "ab", "a.b", ".a", "B")
PIECES = (
    "a",
    "b",
    "B",
    ".",
    "*",
    "**",
    "?",
    "[ab]",
    "[!a]",
    "[^b]",
    "[a-c]",
    "[]a]",
    "[[:upper:]]",
    "\\a",
    "\\*",
    "***",
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with folders and files of all names, three deep."""
    root = tmp_path_factory.mktemp("tree").resolve()
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run(["git", "-C", root, "config", "core.excludesFile", "/dev/null"], check=True)
    for outer, inner in product(NAMES, NAMES):
        (root / f"{outer}" / f"{inner}x").mkdir(parents=True)
        (root / outer / f"{inner}x" / inner).touch()
        (root / outer / inner).touch()
    for name in NAMES:
        (root / f"{name}y").touch()
    return root


def list_ignored_by_git(root: Path, pattern: str, paths: Sequence[str]) -> set[str]:
    (root / ".git" / "info" / "exclude").write_text(pattern + "\n")
    asked = subprocess.run(
        ["git", "-C", root, "check-ignore", "--stdin", "-z", "--no-index"],
        input="\0".join(paths),
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode in {0, 1}, asked.stderr
    return {path for path in asked.stdout.split("\0") if path}


def list_paths(root: Path) -> list[Path]:
    return [path for path in sorted(root.rglob("*")) if ".git" not in path.relative_to(root).parts]


component = st.one_of(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join).filter(lambda name: "**" not in name),
    st.sampled_from(["**", "***"]),
)
"""Two stars beside other characters are left out: git's documentation says one thing about them, its shortcut for plain
beginnings does another (`a**/**` ignores the file `a`). We keep to the documentation."""
patterns = st.builds(
    lambda first, names, last: first + "/".join(names) + last,
    st.sampled_from(["", "/", "**/"]),
    st.lists(component, min_size=1, max_size=3),
    st.sampled_from(["", "/", "/**", "/*"]),
).filter(lambda pattern: pattern.lstrip("/").split("/")[0] not in {".", ".."})
"""A dot in front is ours: it names the session's folder, and git has nothing like it."""


@settings(
    max_examples=count_examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(pattern=patterns)
def test_what_git_ignores_matches_and_nothing_else(tree: Path, pattern: str) -> None:
    every = list_paths(tree)
    names = [str(path.relative_to(tree)) for path in every]
    by_git = list_ignored_by_git(tree, pattern, names)
    try:
        compiled = compile_path(pattern, settings_root=str(tree), cwd=str(tree), home="/nowhere", folds=False)
    except BadPattern:
        # What we refuse as impossible must be nothing to git.
        assert not by_git
        return
    ours = {name for name, path in zip(names, every, strict=True) if compiled.matches(str(path), folder=path.is_dir())}
    assert ours == by_git
