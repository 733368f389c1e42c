"""Glob and Grep on what ignore files leave out: whoever names it finds it, however the rule is spelled."""

import pytest

from ostler.tools.search.glob import Glob
from ostler.tools.search.grep import Grep
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
GLOB, GREP = Glob(), Grep()


def put_file(session: Session, name: str, content: str = "hit\n") -> None:
    path = session.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


async def glob_sorted(session: Session, pattern: str, path: str | None = None) -> list[str]:
    names: list[str] = (await session.expect_result(GLOB, pattern=pattern, path=path)).output.filenames
    return sorted(names)


async def test_what_is_ignored_and_named_is_found_beside_what_is_not(session: Session) -> None:
    put_file(session, ".gitignore", "/build/\nnode_modules\n*.log\n")
    put_file(session, "keep/.gitignore", "!app.log\n")
    for name in ("build/y.js", "sub/build/x.js", "src/a.js", "app.log", "keep/app.log", "node_modules/m/a.js"):
        put_file(session, name)
    assert await glob_sorted(session, "**/build/*.js") == ["build/y.js", "sub/build/x.js"]
    assert await glob_sorted(session, "{src,build}/*.js") == ["build/y.js", "src/a.js"]
    assert await glob_sorted(session, "**/app.log") == ["app.log", "keep/app.log"]
    assert await glob_sorted(session, "**/{build,node_modules}/**") == [
        "build/y.js",
        "node_modules/m/a.js",
        "sub/build/x.js",
    ]
    # A name that no rule speaks of does not bring back what lies in an ignored folder.
    assert await glob_sorted(session, "**/a.js") == ["src/a.js"]
    assert await glob_sorted(session, "*.js") == ["src/a.js", "sub/build/x.js"]


@pytest.mark.parametrize("rule", ["/dist/*", "/dist/**", "/dist/", "dist", "*/", "*", "/di[rst]*/*"])
async def test_a_named_place_is_searched_however_the_rule_is_spelled_that_ignores_it(
    session: Session, rule: str
) -> None:
    put_file(session, ".gitignore", f"# ours\n{rule}\n")
    put_file(session, "dist/.gitignore", "own.txt\n")
    for name in ("dist/a.txt", "dist/deep/b.txt", "dist/own.txt"):
        put_file(session, name, "hit\n")
    assert await glob_sorted(session, "*.txt", path="dist") == ["dist/a.txt", "dist/deep/b.txt"]
    assert await glob_sorted(session, "dist/**/*.txt") == ["dist/a.txt", "dist/deep/b.txt"]
    grepped = (await session.expect_result(GREP, pattern="hit", path="dist/deep")).output.filenames
    assert grepped == ["dist/deep/b.txt"]
    assert set((await session.expect_result(GREP, pattern="hit", path="dist")).output.filenames) == {
        "dist/a.txt",
        "dist/deep/b.txt",
    }


async def test_a_named_place_that_is_not_ignored_keeps_the_rules_from_above(session: Session) -> None:
    put_file(session, ".gitignore", "/src/*\n!/src/**\n*.log\n")
    for name in ("src/a.txt", "src/a.log"):
        put_file(session, name, "hit\n")
    assert await glob_sorted(session, "*", path="src") == ["src/a.txt"]
    assert (await session.expect_result(GREP, pattern="hit", path="src")).output.filenames == ["src/a.txt"]
