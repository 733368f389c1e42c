"""Paths that no kernel takes: refused in a few words, and never walked through."""

import os
from typing import Any

import pytest

from ostler.tools.call_subject import find_subject
from ostler.tools.files.edit import Edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.fs import paths
from ostler.tools.permissions.subject import resolve_access
from ostler.tools.search.glob import Glob
from ostler.tools.search.grep import Grep
from ostler.tools.tasks.monitor import Monitor
from ostler.tools.tool import AnyTool
from tests.support.tool_calls import Session

# Component by component they would take hours.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

LONG = "/" + "a/" * (1 << 19)
CALLS: list[tuple[AnyTool, dict[str, Any]]] = [
    (Read(), {"file_path": LONG}),
    (Read(), {"file_path": f"result:/{LONG}"}),
    (Write(), {"file_path": LONG, "content": ""}),
    (Edit(), {"file_path": LONG, "old_string": "a", "new_string": "b"}),
    (NotebookEdit(), {"notebook_path": f"{LONG}.ipynb", "new_source": "", "cell_id": "1"}),
    (Monitor(), {"path": LONG, "description": "x", "timeout": 1000}),
    (Glob(), {"pattern": "*", "path": LONG[:90_000]}),
    (Grep(), {"pattern": "x", "path": LONG[:90_000]}),
    (Grep(), {"pattern": "x", "path": "a/" * 2_048}),
]


@pytest.mark.parametrize(("tool", "given"), CALLS)
async def test_a_long_path_is_refused_in_a_few_words(session: Session, tool: AnyTool, given: dict[str, Any]) -> None:
    failure = await session.expect_failure(tool, **given)
    assert "File name too long (4096 bytes or more)" in failure.message
    assert len(failure.message) < 500
    assert len(tool.summary(tool.parse(given))) < 5_000


@pytest.mark.parametrize(("tool", "given"), CALLS)
async def test_rules_can_look_at_a_long_path(session: Session, tool: AnyTool, given: dict[str, Any]) -> None:
    parsed = tool.parse(given)
    await find_subject(tool, parsed, session.view)


def test_a_path_is_measured_in_bytes() -> None:
    assert paths.check_path("/" + "x" * 4_094) is None
    assert "too long" in (paths.check_path("/" + "x" * 4_095) or "")
    assert "too long" in (paths.check_path("/" + "ö" * 2_048) or "")
    assert paths.check_path("/" + "\udcff" * 4_000) is None
    assert "too long" in (paths.check_path("/" + "\ud800" * 4_096) or "")


def test_what_fits_of_a_long_path_is_looked_at(session: Session) -> None:
    (session.folder / "link").symlink_to("/etc")
    rest = "/".join(["x" * 100] * 50)
    assert paths.resolve_path(f"{session.folder}/link/{rest}") == f"/etc/{rest}"
    assert paths.resolve_path(f"{session.folder}/{'./' * 10}{rest}") == f"{session.folder}/{rest}"


def test_a_long_path_that_leads_upwards_is_inside_no_folder(session: Session) -> None:
    path = str(session.folder) + "/." * 3_000 + "/link/../x"
    assert not paths.is_inside_roots(paths.resolve_path(path), session.view)


def test_of_a_path_longer_than_any_argument_only_the_beginning_is_looked_at() -> None:
    place = resolve_access("/" + "../a/" * 2_000_000)
    assert place.written == "/a"
    assert len(resolve_access("/" + "a/" * 5_000_000).real) <= 128 * 1024
    assert os.path.isabs(resolve_access("x" * 10_000_000).real)
