"""Patterns are expanded by us as bash would, or not at all: compared with bash itself over real files."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from ostler.tools.commands.syntax.globs import GlobLimits, NotExpandable, expand_glob, strip_glob_quotes
from ostler.tools.commands.syntax.words import read_word
from tests.support.tables import try_each

NAMES = [
    "a", "b", "ab", "abc", "A", "B1", "a.py", "b.py", "c.txt", ".hidden", ".a.py", "-x", "--pre=bash", "sp ace", "x*y",
    "q?", "[a]", "é", "x~", "d/a", "d/b.py", "d/.c", "d/-n", "d/e/f", "d/e/g.py", "D/a", ".git/config", "d2/x/y", "a=b",
    "_", "0", "9z", "tab\tname", "quo'te", "new\nline", "a,b", "{x}", "!b", "^c", "a-b", "]", "back\\slash",
]  # fmt: skip
PIECES = [
    "*", "*", "**", "?", "a", "b", ".", "py", "/", "d", "-", "[ab]", "[a-c]", "[!a]", "[^b]", "[A-Z]", "[0-9]",
    "[a-zA-Z0-9_]",
    "'*'", '"?"', "\\*", "\\[", "'a'", '"d"', ".*", "x", "=", "..", "~", "_", "é", "'sp ace'",
    "'/'", '"d/"', "'d/e/'", "\\/", "\\ ", ",", "^", "!",
]  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("globs") / "w"
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "broken").symlink_to("nowhere")
    (folder / "dlink").symlink_to("d")
    (folder / "d" / "up").symlink_to("..")
    (folder.parent / "beside").touch()
    return folder


def expand_all_with_bash(sources: list[str], folder: Path) -> list[list[str]]:
    """All of them by one shell, in the order of bytes."""
    script = "\n".join(f"printf '%s\\0' {source}; printf '\\1\\0'" for source in sources)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc"], input=os.fsencode(script), cwd=folder, capture_output=True, check=True,
        env={"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert not done.stderr
    groups = os.fsdecode(done.stdout).split("\1\0")[:-1]
    return [group.split("\0")[:-1] for group in groups]


def generate_patterns(seed: int, count: int) -> list[str]:
    chosen = random.Random(seed)
    found: list[str] = []
    while len(found) < count:
        source = "".join(chosen.choices(PIECES, k=chosen.randint(1, 6)))
        if read_word(source).kind == "glob":
            found.append(source)
    return found


def test_a_pattern_finds_what_bash_finds(tree: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    sources = generate_patterns(seed, 1_500)
    expanded = 0
    for source, expected in zip(sources, expand_all_with_bash(sources, tree), strict=True):
        word = read_word(source)
        try:
            found = expand_glob(word, str(tree), GlobLimits())
        except NotExpandable:
            continue
        expanded += 1
        ordered = sorted(expected, key=os.fsencode)
        assert (found or [strip_glob_quotes(word)]) == ordered, f"{source} with seed {seed}"
    assert expanded > 900, "most of them are expanded"


@try_each(
    "source",
    [
        "[[:alpha:]]", "d/[[:alpha:]]ink", "[[.a.]]", "[[=a=]]", "[a[:digit:]]", "[]a]", "[!]a]", "[a-]", "[-a]",
        "[a-Z]",
        "[z-a]*", "[é]", "[a-é]", "[!é]", "[!.]", "[a/b]", "[\\a]", "['a']", "[a*", "[*", "{x}*",
        "*{x}",
        "d//*", "//*", "[!-a]", "[a!]", "[,-.]", "[ -~]", "[*]a", "[?]", "[a*]", "*$", "[^^]", "[.]*",
    ],
)  # fmt: skip
def test_what_bash_may_expand_otherwise_is_not_expanded(source: str, tree: Path) -> None:
    with pytest.raises(NotExpandable):
        expand_glob(read_word(source), str(tree), GlobLimits())


@pytest.mark.parametrize("source", ["d/[[:alpha:]]*", "[]a]*", "**", "**/g.py", "{d}/*", "[[=a=]]"])
def test_where_it_is_not_known_exactly_all_that_it_may_find_is_named(source: str, tree: Path) -> None:
    found = set(expand_glob(read_word(source), str(tree), GlobLimits(), wide=True))
    expected = {name for name in expand_all_with_bash([source], tree)[0] if os.path.lexists(tree / name)}
    assert expected <= found


def test_more_than_a_thousand_names_are_too_many(tmp_path: Path) -> None:
    for number in range(1_001):
        (tmp_path / f"f{number}").touch()
    assert len(expand_glob(read_word("f[1-9]??"), str(tmp_path), GlobLimits())) == 900
    with pytest.raises(NotExpandable, match="more than 1000 names"):
        expand_glob(read_word("f*"), str(tmp_path), GlobLimits())
    limits = GlobLimits()
    expand_glob(read_word("f[1-9]??"), str(tmp_path), limits)
    with pytest.raises(NotExpandable):
        expand_glob(read_word("f[1-9]??"), str(tmp_path), limits)


def test_the_search_ends_after_ten_thousand_names(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "up").symlink_to(".")
    for number in range(20):
        (tmp_path / "d" / f"l{number}").symlink_to(".")
    with pytest.raises(NotExpandable, match="looks at more than"):
        expand_glob(read_word("d/*/*/*/*/*/*/none"), str(tmp_path), GlobLimits())


def test_no_name_makes_a_pattern_slow(tmp_path: Path) -> None:
    (tmp_path / ("a" * 250)).touch()
    assert expand_glob(read_word("*a" * 100 + "b"), str(tmp_path), GlobLimits()) == []


@pytest.mark.parametrize("source", ["*a" * 501, "*/" * 65 + "x"])
def test_a_pattern_that_nobody_would_write_is_not_expanded(source: str, tmp_path: Path) -> None:
    with pytest.raises(NotExpandable, match="longer than a pattern may be"):
        expand_glob(read_word(source), str(tmp_path), GlobLimits(), wide=True)


def test_a_hundred_patterns_are_enough_for_one_command(tmp_path: Path) -> None:
    limits = GlobLimits()
    for _ in range(100):
        expand_glob(read_word("*"), str(tmp_path), limits)
    with pytest.raises(NotExpandable, match="more than 100 patterns"):
        expand_glob(read_word("*"), str(tmp_path), limits)
