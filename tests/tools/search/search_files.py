"""Helpers that write files to search in, and run Glob and Grep."""

from pathlib import Path
from typing import Any

from ostler.tools.search.glob import Glob
from ostler.tools.search.grep import Grep
from tests.support.tool_calls import Session


def put_file(session: Session, name: str, data: bytes | str = "hit\n") -> Path:
    path = session.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


async def grep(session: Session, **given: Any) -> str:
    return await session.expect_text(Grep(), **{"pattern": "hit", **given})


async def glob_sorted(session: Session, pattern: str, path: str | None = None) -> list[str]:
    names: list[str] = (await session.expect_result(Glob(), pattern=pattern, path=path)).output.filenames
    return sorted(names)
