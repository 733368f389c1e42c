"""Names that are suggested for a missing file: similar ones, and none that the session may not see."""

from typing import Any

import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.tool import AnyTool
from tests.support.tool_calls import Session, put_file

pytestmark = pytest.mark.anyio


READ, WRITE, EDIT, NOTEBOOK = Read(), Write(), Edit(), NotebookEdit()


EXAMPLES: dict[str, dict[str, Any]] = {
    "Read": {},
    "Edit": {"old_string": "a", "new_string": "b"},
    "NotebookEdit": {"cell_id": "c", "new_source": ""},
}


# Names that are close.


async def fail_on_missing_file(session: Session, tool: AnyTool, name: str) -> str:
    """The message of a call about a missing file."""
    key = "notebook_path" if tool is NOTEBOOK else "file_path"
    given = {**EXAMPLES[tool.name], key: str(session.folder / name)}
    failure = await session.expect_failure(tool, **given)
    assert failure.code == 1
    return failure.message


@pytest.mark.parametrize("tool", [READ, EDIT, NOTEBOOK], ids=lambda tool: tool.name)
async def test_a_link_to_nothing_says_where_it_leads_and_is_not_offered(session: Session, tool: AnyTool) -> None:
    end = "ipynb" if tool is NOTEBOOK else "txt"
    there = put_file(session, f"settings.{end}")
    link, chain = session.folder / f"setting.{end}", session.folder / f"settings2.{end}"
    link.symlink_to("gone")
    chain.symlink_to(link.name)
    assert await fail_on_missing_file(session, tool, link.name) == f"{link} is a link to gone, which does not exist."
    assert (
        await fail_on_missing_file(session, tool, chain.name)
        == f"{chain} is a link to {link.name}, which leads nowhere."
    )
    wrong = session.folder / f"setings.{end}"
    assert (
        await fail_on_missing_file(session, tool, wrong.name)
        == f"The file {wrong} does not exist. Close to it: {there}."
    )


@pytest.mark.parametrize("tool", [READ, EDIT, NOTEBOOK], ids=lambda tool: tool.name)
async def test_no_name_is_offered_that_a_rule_hides_or_that_is_the_daemons_own(session: Session, tool: AnyTool) -> None:
    end = "ipynb" if tool is NOTEBOOK else "txt"
    put_file(session, f"token1.{end}")
    put_file(session, f"home/token1.{end}")
    session.change_view(may_read=lambda path: "token1" not in path)
    assert "token1" not in await fail_on_missing_file(session, tool, f"token.{end}")
    session.change_view(may_read=None, home=str(session.folder / "home"))
    assert "token1" in await fail_on_missing_file(session, tool, f"token.{end}")
    assert "token1" not in await fail_on_missing_file(session, tool, f"home/token.{end}")


async def test_nobody_hears_of_names_outside_the_folders_before_somebody_has_allowed_it(session: Session) -> None:
    outside = session.folder.parent / "outside"
    outside.mkdir()
    (outside / "token1.txt").touch()
    assert "token1" not in await fail_on_missing_file(session, EDIT, "../outside/token.txt")
    assert "token1" in await fail_on_missing_file(
        session, READ, "../outside/token.txt"
    )  # it ran: a person has said yes
