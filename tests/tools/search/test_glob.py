"""Glob: names, the newest first, never outside."""

import os
from pathlib import Path

import pytest

from ostler.tools.search import ripgrep
from ostler.tools.search.glob import Glob
from ostler.tools.search.glob_pattern import BadPattern, compile_pattern, expand
from ostler.tools.search.grep import Grep
from ostler.tools.tool import Allow, AskFirst, Failure, Refuse
from tests.support.tables import try_each
from tests.support.tool_calls import Session
from tests.tools.search.search_files import glob_sorted, grep, put_file

pytestmark = pytest.mark.anyio
GLOB = Glob()


def fill_folder(session: Session, *names: str) -> None:
    """Writes files, each newer than the one before."""
    for age, name in enumerate(names, 1):
        path = session.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (age * 1000, age * 1000))


async def glob_names(session: Session, pattern: str, path: str | None = None) -> list[str]:
    found: list[str] = (await session.expect_result(GLOB, pattern=pattern, path=path)).output.filenames
    return found


async def test_the_newest_comes_first(session: Session) -> None:
    fill_folder(session, "b.py", "src/a.py", "src/deep/c.py", "d.txt")
    assert await glob_names(session, "**/*.py") == ["src/deep/c.py", "src/a.py", "b.py"]
    assert await session.expect_text(GLOB, pattern="src/*.py") == "src/a.py"


@try_each(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "x/y/a.py", True),
        ("x/*.py", "x/a.py", True),
        ("x/*.py", "x/y/a.py", False),
        ("x/**/*.py", "x/a.py", True),
        ("x/**/*.py", "x/y/z/a.py", True),
        ("x/**", "x/y/z", True),
        ("x/**", "x", False),
        ("**/y/**/a.py", "x/y/a.py", True),
        ("*.{ts,tsx}", "a.tsx", True),
        ("{a,b{c,d}}.py", "bd.py", True),
        ("{a,b{c,d}}.py", "b.py", False),
        ("[ab].py", "b.py", True),
        ("[!ab].py", "b.py", False),
        ("[a-c]?.py", "bx.py", True),
        ("[]a].py", "].py", True),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "aXcYb", False),
        ("*ab*ab", "abab", True),
        (r"\*.py", "*.py", True),
        (r"\*.py", "a.py", False),
        ("a[/]b", "a/b", False),
        ("{a.py", "{a.py", True),
        ("**", "x/y", True),
    ],
)
def test_patterns_mean_what_they_say(pattern: str, path: str, matches: bool) -> None:
    assert compile_pattern(pattern)(path) is matches


def test_a_pattern_cannot_take_for_ever() -> None:
    assert not compile_pattern("*a" * 200 + "*b")("a" * 2000)
    with pytest.raises(BadPattern):
        expand("{a,b}" * 20)
    with pytest.raises(BadPattern):
        compile_pattern("**/a/" * 20)


def test_alternatives_that_are_long_together_are_refused() -> None:
    with pytest.raises(BadPattern, match="more than 20000 characters"):
        expand("{" + "," * 190 + "}" + "x" * 1_000)
    with pytest.raises(BadPattern, match="too long: more than 4096 characters"):
        compile_pattern("x" * 4_097)


@pytest.mark.timeout(20)
def test_braces_are_looked_through_once_however_deep_they_are() -> None:
    assert expand("{a" * 20_000 + "}" * 20_000) == ["a" * 20_000]


@try_each(
    ("pattern", "alternatives"),
    [
        ("a{b,{c,d}e}f", ["abf", "acef", "adef"]),
        ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]),
        ("{a,{b,c}", ["{a,b", "{a,c"]),
        ("a,b}", ["a,b}"]),
        (r"{a\,b,\}}", [r"a\,b", r"\}"]),
        ("{}x\\", ["x\\"]),
    ],
)
def test_braces_are_taken_apart(pattern: str, alternatives: list[str]) -> None:
    assert expand(pattern) == alternatives


async def test_a_long_pattern_of_names_is_refused_in_a_few_words(session: Session) -> None:
    for tool, given in ((GLOB, {"pattern": "[a]" * 30_000}), (Grep(), {"pattern": "x", "glob": "[a]" * 30_000})):
        failure = await session.expect_failure(tool, **given)
        assert failure.message == "The pattern is too long: more than 4096 characters."


async def test_ignored_files_and_version_control_are_left_out_unless_named(session: Session) -> None:
    fill_folder(
        session, "node_modules/react/index.js", "app.js", ".env", ".git/config", ".github/x.yml", "build/out.js"
    )
    (session.folder / ".gitignore").write_text("node_modules/\n.env\nbuild\n")
    assert await glob_names(session, "**/*.js") == ["app.js"]
    assert await glob_names(session, "**/*.yml") == [".github/x.yml"]
    assert ".git/config" not in await glob_names(session, "**/*")
    assert await glob_names(session, "node_modules/react/*.js") == ["node_modules/react/index.js"]
    assert await glob_names(session, ".env") == [".env"]
    assert await glob_names(session, ".git/config") == [".git/config"]


async def test_a_hundred_files_are_enough_and_the_cut_is_said(session: Session) -> None:
    fill_folder(session, *(f"{number}.txt" for number in range(150)))
    output = (await session.expect_result(GLOB, pattern="*.txt")).output
    assert output.truncated
    assert output.filenames == [f"{number}.txt" for number in range(149, 49, -1)]
    assert "only the 100 newest" in await session.expect_text(GLOB, pattern="*.txt")
    assert "at most 100 of them" in GLOB.description(session.view)
    fewer = session.change_config(glob_files=3)
    assert "only the 3 newest" in await fewer.expect_text(GLOB, pattern="*.txt")
    assert "at most 3 of them" in GLOB.description(fewer.view)


async def test_nothing_found_says_so(session: Session) -> None:
    assert await session.expect_text(GLOB, pattern="*.nothing") == "No files found"


async def test_a_link_leads_nowhere(session: Session, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("")
    (session.folder / "link").symlink_to(outside)
    (session.folder / "loop").symlink_to(session.folder)
    fill_folder(session, "own.txt")
    assert await glob_names(session, "**/*.txt") == ["own.txt"]
    assert isinstance(await session.check(GLOB, pattern="link/*.txt"), AskFirst)
    assert isinstance(await session.check(GLOB, pattern="*.txt", path="link"), AskFirst)
    assert isinstance(await session.check(GLOB, pattern=f"{outside}/*.txt"), AskFirst)
    assert isinstance(await session.check(GLOB, pattern="*.txt", path=".."), AskFirst)
    assert isinstance(await session.check(GLOB, pattern="*.txt"), Allow)


async def test_an_absolute_pattern_and_path_work(session: Session) -> None:
    fill_folder(session, "src/a.py")
    assert await glob_names(session, f"{session.folder}/src/*.py") == ["src/a.py"]
    assert await glob_names(session, "*.py", str(session.folder / "src")) == ["src/a.py"]


async def test_the_daemons_own_folder_is_neither_searched_nor_shown(session: Session) -> None:
    fill_folder(session, "ho*me/token", "a")
    session.change_view(home=str(session.folder / "ho*me"))
    assert await glob_names(session, "**") == ["a"]
    assert isinstance(await session.check(GLOB, pattern="*", path="ho*me"), Refuse)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pattern": "*", "path": "nowhere"}, "does not exist"),
        ({"pattern": "*", "path": "file"}, "not a folder"),
        ({"pattern": "*", "path": "result://r_1"}, "result://r_1 is a persisted result: read it with Read, or search"),
        ({"pattern": "../*"}, ".."),
        ({"pattern": "a\0b"}, "NUL"),
        ({"pattern": "*", "path": "a\0b"}, "NUL"),
        ({"pattern": "[z-a]"}, "set of characters"),
    ],
)
async def test_bad_input_is_a_clear_failure(session: Session, given: dict[str, str], words: str) -> None:
    fill_folder(session, "file")
    failure = await session.call(GLOB, given)
    assert isinstance(failure, Failure)
    assert words in failure.message


async def test_names_that_are_no_utf8_can_be_shown(session: Session) -> None:
    os.close(os.open(os.fsencode(session.folder) + b"/\xff.txt", os.O_CREAT))
    assert await glob_names(session, "*.txt") == ["\ufffd.txt"]


async def test_a_glob_that_takes_too_long_says_that_there_may_be_more(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_folder(session, "a.txt")
    monkeypatch.setattr(ripgrep, "TIME_LIMIT", 0.0)
    ran = await session.expect_result(GLOB, pattern="*.txt")
    assert ran.output.timed_out
    assert GLOB.render(ran.output)[0]["text"].endswith(ripgrep.STOPPED_NOTE)


GREP = Grep()


VERSION_CONTROL = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl"]


# Places.


@pytest.mark.parametrize("folder", VERSION_CONTROL)
async def test_every_version_control_is_left_out_unless_it_is_named(session: Session, folder: str) -> None:
    put_file(session, f"{folder}/config.txt")
    put_file(session, "deep/a.txt")
    put_file(session, f"deep/{folder}/b.txt")
    assert await glob_sorted(session, "**/*.txt") == ["deep/a.txt"]
    assert await glob_sorted(session, f"{folder}/*.txt") == [f"{folder}/config.txt"]
    assert await glob_sorted(session, f"**/{folder}/*.txt") == [f"{folder}/config.txt", f"deep/{folder}/b.txt"]
    for mode in ("files_with_matches", "count", "content"):
        assert folder not in await grep(session, output_mode=mode)
    assert await grep(session, path=folder) == f"{folder}/config.txt"


async def test_names_are_relative_to_the_sessions_folder_and_absolute_outside_of_it(session: Session) -> None:
    put_file(session, "src/a.txt")
    outside = session.folder.parent / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("hit\n")
    assert await glob_sorted(session, "*.txt", "src") == ["src/a.txt"]
    assert await grep(session, path="src") == "src/a.txt"
    assert await glob_sorted(session, "*.txt", str(outside)) == [f"{outside}/b.txt"]
    assert await grep(session, path=str(outside), output_mode="content") == f"{outside}/b.txt:1:hit"


async def test_the_output_of_glob_says_how_many_and_how_long(session: Session) -> None:
    put_file(session, "a.txt")
    put_file(session, ".hidden/b.txt")
    output = (await session.expect_result(GLOB, pattern="*.txt")).output
    assert (output.num_files, output.truncated, output.timed_out) == (2, False, False)
    assert output.duration_ms >= 0
    assert set(output.filenames) == {"a.txt", ".hidden/b.txt"}


async def test_what_is_ignored_is_found_by_its_own_name_in_every_kind_of_pattern(session: Session) -> None:
    put_file(session, ".gitignore", "build/\n*.log\n")
    put_file(session, "build/out.js")
    put_file(session, "debug.log")
    for pattern in ("**/*.js", "*.{js,log}", "[a-z]*.log"):
        assert await glob_sorted(session, pattern) == []
    assert await glob_sorted(session, "**/build/*.js") == ["build/out.js"]
    assert await glob_sorted(session, "debug.log") == ["debug.log"]


async def test_an_empty_pattern_of_names_is_refused(session: Session) -> None:
    assert (await session.expect_failure(GLOB, pattern="")).message == "The pattern is empty: `**` finds every file."
