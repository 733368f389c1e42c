"""Diagnostics of the editor of an attached client, for a file that was just changed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson

from ostler.server.clients.client_tools import ClientTools
from ostler.storage import Scope
from ostler.tools.services import Diagnostic, Diagnostics, NoDiagnostics, Severity

TOOL: Final = "mcp__ide__getDiagnostics"
_SECONDS: Final = 1.0
_MAX_DIAGNOSTICS: Final = 1000
_MESSAGE_CHARS: Final = 2000
_MAX_JSON_CHARS: Final = 1_000_000
"""Parsing more than that would hold up the event loop, and no file has so many diagnostics."""
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
    """Asks the attached client that provides the diagnostics tool, where there is one."""

    calls: ClientTools
    scope: Scope

    async def collect(self, path: str, place: str) -> list[Diagnostic] | None:
        answer = await self.calls.call(self.scope, TOOL, {"uri": PurePosixPath(path).as_uri()}, _SECONDS)
        if answer is None or answer.error is not None:
            return None
        return read_diagnostics(answer.output, {path, place})


def make_diagnostics(calls: ClientTools | None, scope: Scope) -> Diagnostics:
    """Those of attached clients; the empty form where there are no client calls."""
    return NoDiagnostics() if calls is None else ClientDiagnostics(calls, scope)


def read_diagnostics(output: Any, paths: set[str]) -> list[Diagnostic] | None:
    """Parse the diagnostics of one file: a list by URI, or text, bare or in MCP blocks. Null where it is neither."""
    output = _unwrap_output(output)
    if isinstance(output, str):
        return [Diagnostic("information", output[:_MESSAGE_CHARS])] if output.strip() else []
    if isinstance(output, dict):
        output = [output]
    if not isinstance(output, list):
        return None
    return list(_collect_for_file(output, paths))


def _unwrap_output(output: Any) -> Any:
    """Take the text out of MCP blocks, and parse it where it is JSON."""
    if isinstance(output, dict) and "content" in output:
        output = output["content"]
    if isinstance(output, list) and output and all(_is_text(block) for block in output):
        output = "\n".join(block["text"] for block in output)
    if isinstance(output, str) and len(output) <= _MAX_JSON_CHARS and output.lstrip().startswith(("[", "{")):
        try:
            return orjson.loads(output)
        except orjson.JSONDecodeError:
            return output
    return output


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


def _collect_for_file(files: list[Any], paths: set[str]) -> Iterator[Diagnostic]:
    left = _MAX_DIAGNOSTICS
    for file in files:
        if not isinstance(file, dict) or _parse_path(file.get("uri")) not in paths:
            continue
        found = file.get("diagnostics")
        for each in found[:left] if isinstance(found, list) else ():
            if isinstance(each, dict) and isinstance(each.get("message"), str):
                left -= 1
                yield _parse_diagnostic(each)


def _parse_path(uri: Any) -> str | None:
    if not isinstance(uri, str):
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    # A path without a scheme is accepted, too.
    return unquote(parts.path) if parts.scheme in {"file", ""} else None


def _parse_diagnostic(item: dict[str, Any]) -> Diagnostic:
    severity = item.get("severity")
    known = _BY_WORD.get(severity.lower()) if isinstance(severity, str) else _BY_NUMBER.get(_parse_int(severity))
    line, column = _parse_start(item.get("range"))
    return Diagnostic(known or "information", item["message"][:_MESSAGE_CHARS], line, column)


def _parse_start(span: Any) -> tuple[int | None, int | None]:
    """Line and column of the start of a range, counted from 1; editors count from 0."""
    start = span.get("start") if isinstance(span, dict) else None
    if not isinstance(start, dict):
        return None, None
    return _to_one_based(start.get("line")), _to_one_based(start.get("character"))


def _to_one_based(number: Any) -> int | None:
    zero_based = _parse_int(number)
    return None if zero_based is None else zero_based + 1


def _parse_int(number: Any) -> int | None:
    return number if isinstance(number, int) else None
