"""What the rules about permission know of a call: its path, its server, its text, the files that it is given."""

import os
from collections.abc import Sequence
from typing import Any, Final

from ostler.tools.context import SessionView
from ostler.tools.permissions import EDIT, READ
from ostler.tools.permissions.subject import (
    AccessedPath,
    PathSubject,
    ServerSubject,
    Subject,
    TextSubject,
    resolve_access,
)
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import AnyTool, ToolInput
from ostler.tools.traits import FromInput

PATH_PARAMETERS: Final = ("path", "file_path", "notebook_path")
"""Parameters that name a file, whatever the tool is."""


def find_path(tool: AnyTool, given: ToolInput) -> str | None:
    """The path that its rules match."""
    return _read(tool.permissions.path, given)


def find_server(tool: AnyTool, given: ToolInput) -> str | None:
    """The MCP server that its rules match."""
    return _read(tool.permissions.server, given)


def find_rule_text(tool: AnyTool, given: ToolInput) -> str:
    """The text that the content of a rule is compared with."""
    if tool.permissions.text is None:
        return find_path(tool, given) or ""
    return _read(tool.permissions.text, given) or ""


def list_paths(tool: AnyTool, given: ToolInput) -> tuple[str, ...]:
    """The paths that it is given, which rules about files bind: its path, or what is named like one."""
    if tool.permissions.paths is not None:
        return tool.permissions.paths(given)
    if (path := find_path(tool, given)) is not None:
        return (path,)
    fields = type(given).model_fields
    values = {info.alias or name: getattr(given, name, None) for name, info in fields.items()}
    values |= given.model_extra or {}
    named = [values.get(name) for name in PATH_PARAMETERS]
    return tuple(path for each in named if isinstance(each, str) and (path := _strip_scheme(each)))


def list_rule_families(tool: AnyTool) -> tuple[str, ...]:
    """The tools whose rules about files bind it."""
    match tool.permissions.rule_family:
        case None:
            return (READ,) if tool.only_reads else (EDIT, READ)
        case str(name):
            return (name,)
        case names:
            return names


async def find_subject(tool: AnyTool, given: ToolInput, session: SessionView) -> Subject:
    """What permission rules with a content are compared with."""
    if tool.permissions.subject is not None:
        own = await tool.permissions.subject(given, session)
        if own is not None:
            return own
    given_paths = [os.path.join(session.folder, path) for path in list_paths(tool, given)]
    places: tuple[AccessedPath, ...] = ()
    if given_paths:
        places = await read_in_thread(_resolve_all, given_paths, not tool.only_reads)
    if (server := find_server(tool, given)) is not None:
        return ServerSubject(server, places)
    text = find_rule_text(tool, given)
    # A tool that says nothing of itself, and is given a path: its rules are about that path.
    if find_path(tool, given) is None and (text or not places):
        return TextSubject(text, places)
    return PathSubject(places)


def _read(wanted: FromInput[Any] | None, given: ToolInput) -> str | None:
    if wanted is None:
        return None
    found: str | None = getattr(given, wanted) if isinstance(wanted, str) else wanted(given)
    return found


def _strip_scheme(path: str) -> str:
    """A file by its address is a path; what else has a scheme is none."""
    if path.startswith("file://"):
        return path.removeprefix("file://")
    return "" if "://" in path else os.path.expanduser(path)


def _resolve_all(given: Sequence[str], writes: bool) -> tuple[AccessedPath, ...]:
    # Of a folder a tool may take everything below it.
    return tuple(resolve_access(path, writes=writes, deep=os.path.isdir(path)) for path in given)
