"""What the editor of an attached client says about a file that was just changed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson

from ostler.server.clients.client_tools import ClientCalls
from ostler.storage import Scope
from ostler.tools.services import Diagnostic, Diagnostics, NoDiagnostics, Severity

TOOL: Final = "mcp__ide__getDiagnostics"
_SECONDS: Final = 1.0
_MOST: Final = 1000
_MESSAGE_CHARS: Final = 2000
_MOST_JSON_CHARS: Final = 1_000_000
"""More than that would hold up the event loop, and nobody has so many mistakes in one file."""
_BY_NUMBER: Final[dict[int | None, Severity]] = {1: "error", 2: "warning", 3: "information", 4: "hint"}
_BY_WORD: Final[dict[str, Severity]] = {
    "error": "error",
    "warning": "warning",
    "information": "information",
    "info": "information",
    "hint": "hint",
}


@dataclass(frozen=True, slots=True)
class ClientDiagnostics:
    """Asks the client that provides them, where one is attached to the session."""

    calls: ClientCalls
    scope: Scope

    async def after_change(self, path: str, place: str) -> list[Diagnostic] | None:
        answer = await self.calls.call(self.scope, TOOL, {"uri": PurePosixPath(path).as_uri()}, _SECONDS)
        if answer is None or answer.error is not None:
            return None
        return read_diagnostics(answer.output, {path, place})


def diagnostics_of(calls: ClientCalls | None, scope: Scope) -> Diagnostics:
    return NoDiagnostics() if calls is None else ClientDiagnostics(calls, scope)


def read_diagnostics(output: Any, paths: set[str]) -> list[Diagnostic] | None:
    """What an answer says about one file: a list by URI, or words, bare or as MCP wraps them. Null: nothing usable."""
    output = _unwrapped(output)
    if isinstance(output, str):
        return [Diagnostic("information", output[:_MESSAGE_CHARS])] if output.strip() else []
    if isinstance(output, dict):
        output = [output]
    if not isinstance(output, list):
        return None
    return list(_of_file(output, paths))


def _unwrapped(output: Any) -> Any:
    """MCP gives blocks of text, and the text is often JSON."""
    if isinstance(output, dict) and "content" in output:
        output = output["content"]
    if isinstance(output, list) and output and all(_is_text(block) for block in output):
        output = "\n".join(block["text"] for block in output)
    if isinstance(output, str) and len(output) <= _MOST_JSON_CHARS and output.lstrip().startswith(("[", "{")):
        try:
            return orjson.loads(output)
        except orjson.JSONDecodeError:
            return output
    return output


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


def _of_file(files: list[Any], paths: set[str]) -> Iterator[Diagnostic]:
    left = _MOST
    for file in files:
        if not isinstance(file, dict) or _path_of(file.get("uri")) not in paths:
            continue
        found = file.get("diagnostics")
        for each in found[:left] if isinstance(found, list) else ():
            if isinstance(each, dict) and isinstance(each.get("message"), str):
                left -= 1
                yield _diagnostic(each)


def _path_of(uri: Any) -> str | None:
    if not isinstance(uri, str):
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    # A path alone is taken as one, too.
    return unquote(parts.path) if parts.scheme in {"file", ""} else None


def _diagnostic(given: dict[str, Any]) -> Diagnostic:
    severity = given.get("severity")
    known = _BY_WORD.get(severity.lower()) if isinstance(severity, str) else _BY_NUMBER.get(_int(severity))
    line, column = _start(given.get("range"))
    return Diagnostic(known or "information", given["message"][:_MESSAGE_CHARS], line, column)


def _start(where: Any) -> tuple[int | None, int | None]:
    """Editors count from 0, people from 1."""
    start = where.get("start") if isinstance(where, dict) else None
    if not isinstance(start, dict):
        return None, None
    return _from_one(start.get("line")), _from_one(start.get("character"))


def _from_one(number: Any) -> int | None:
    given = _int(number)
    return None if given is None else given + 1


def _int(number: Any) -> int | None:
    return number if isinstance(number, int) else None
