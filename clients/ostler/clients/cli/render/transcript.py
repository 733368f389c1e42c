"""Sessions and messages as text for people."""

import json
import os
import shutil
import textwrap
from datetime import UTC, datetime
from typing import Any, Final

from ostler.clients.cli.output import Colour, coloured, duration, facts, fit, is_terminal, printable

_COLOURS: Final[dict[str, Colour]] = {"running": "green", "waiting": "yellow", "archived": "dim", "idle": "cyan"}
_TITLE_WIDTH: Final = 30


def session_lines(found: list[dict[str, Any]]) -> list[str]:
    """One line a session: columns on a terminal, tabs in a pipe."""
    if not is_terminal():
        return ["\t".join(_cells(session)) for session in found]
    width = shutil.get_terminal_size().columns
    return [_row(session, width) for session in found]


def _cells(session: dict[str, Any]) -> list[str]:
    names = ("id", "status", "updated_at", "title", "cwd")
    return [" ".join(printable(str(session.get(name) or "")).split()) for name in names]


def _row(session: dict[str, Any], width: int) -> str:
    session_id, status, updated, title, cwd = _cells(session)
    head = f"{session_id}  {status:<8}  {_ago(updated):>12}  {fit(title or '-', _TITLE_WIDTH):<{_TITLE_WIDTH}}  "
    folder = fit(_short(cwd), max(10, width - len(head)))
    return head.replace(status, coloured(status, _COLOURS.get(status, "cyan")), 1) + coloured(folder, "dim")


def _short(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path


def _ago(moment: str) -> str:
    try:
        return duration((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())
    except (ValueError, TypeError):
        return moment


def session_text(session: dict[str, Any]) -> str:
    title = coloured(printable(session.get("title") or session["id"]), "bold")
    names = ("id", "status", "cwd", "model", "provider", "mode", "on_ask", "parent_id", "created_at", "updated_at")
    shown = [(name, session.get(name)) for name in names]
    more = [
        ("directories", ", ".join(session.get("additional_directories") or []) or None),
        ("usage", _usage(session.get("usage") or {})),
        ("metadata", _json(session.get("metadata")) if session.get("metadata") else None),
        ("open asks", len(session.get("asks") or []) or None),
    ]
    return f"{title}\n{facts(shown + more)}"


def _usage(usage: dict[str, Any]) -> str | None:
    asked, answered = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    if not asked and not answered:
        return None
    cost = usage.get("cost_usd")
    return f"{asked} tokens in, {answered} out" + (f", ${cost}" if cost is not None else "")


def message_text(message: dict[str, Any], decided: dict[str, str] | None = None) -> str:
    """A message under its heading, block by block; calls with what was decided about them."""
    head = coloured(f"{message['role']}", "bold") + coloured(f"  {message['created_at']}", "dim")
    known = decided or {}
    blocks = enumerate(message["content"])
    texts = (_decided(_block_text(block), known.get(f"{message['id']}#{index}")) for index, block in blocks)
    return "\n".join([head, *texts])


def _decided(text: str, decision: str | None) -> str:
    return f"{text}\n  {coloured(f'({printable(decision)})', 'dim')}" if decision else text


def _block_text(block: dict[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return printable(str(block.get("text", "")))
        case "thinking":
            return _indented("thinking: " + str(block.get("thinking", "")), "dim")
        case "tool_use":
            return f"{coloured(printable(str(block.get('name'))), 'cyan')} {printable(_json(block.get('input')))}"
        case "tool_result":
            failed = bool(block.get("is_error"))
            return _indented(_result_text(block.get("content", "")), "red" if failed else "dim")
        case other:
            return f"[{printable(str(other))}]"


def _result_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in content or [])


def _indented(text: str, colour: Colour) -> str:
    lines = textwrap.indent(printable(text), "  ").split("\n")
    return "\n".join(coloured(line, colour) for line in lines)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
