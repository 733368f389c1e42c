"""Sessions and messages as text for people."""

import json
import shutil
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ostler.clients.cli.output import Colour, colourize, fit, format_duration, format_facts, is_terminal, sanitize
from ostler.clients.cli.render.ask_line import abbreviate_home

_COLOURS: Final[dict[str, Colour]] = {"running": "green", "waiting": "yellow", "archived": "dim", "idle": "cyan"}
_TITLE_WIDTH: Final = 30
_BRIEF_NAMES: Final = ("SendUserMessage", "Brief")
"""The tool whose input is for people, as the model may call it."""


def format_sessions(found: list[dict[str, Any]]) -> list[str]:
    """One line a session: columns on a terminal, tabs in a pipe."""
    if not is_terminal():
        return ["\t".join(_format_cells(session)) for session in found]
    width = shutil.get_terminal_size().columns
    return [_format_row(session, width) for session in found]


def _format_cells(session: dict[str, Any]) -> list[str]:
    names = ("id", "status", "updated_at", "title", "cwd")
    return [" ".join(sanitize(str(session.get(name) or "")).split()) for name in names]


def _format_row(session: dict[str, Any], width: int) -> str:
    session_id, status, updated, title, cwd = _format_cells(session)
    head = f"{session_id}  {status:<8}  {_format_ago(updated):>12}  {fit(title or '-', _TITLE_WIDTH):<{_TITLE_WIDTH}}  "
    folder = fit(abbreviate_home(cwd), max(10, width - len(head)))
    return head.replace(status, colourize(status, _COLOURS.get(status, "cyan")), 1) + colourize(folder, "dim")


def _format_ago(moment: str) -> str:
    try:
        return format_duration((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())
    except (ValueError, TypeError):
        return moment


def format_session(session: dict[str, Any]) -> str:
    title = colourize(sanitize(session.get("title") or session["id"]), "bold")
    names = ("id", "status", "cwd", "model", "provider", "mode", "on_ask", "parent_id", "created_at", "updated_at")
    shown = [(name, session.get(name)) for name in names]
    more = [
        ("directories", ", ".join(session.get("additional_directories") or []) or None),
        ("usage", _format_usage(session.get("usage") or {})),
        ("metadata", _format_json(session.get("metadata")) if session.get("metadata") else None),
        ("open asks", len(session.get("asks") or []) or None),
    ]
    return f"{title}\n{format_facts(shown + more)}"


def _format_usage(usage: dict[str, Any]) -> str | None:
    asked, answered = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    if not asked and not answered:
        return None
    cost = usage.get("cost_usd")
    return f"{asked} tokens in, {answered} out" + (f", ${cost}" if cost is not None else "")


def format_message(
    message: dict[str, Any], decided: Mapping[str, str] | None = None, agents: Mapping[str, str] | None = None
) -> str:
    """A message under its heading, block by block; calls with what was decided about them, and with their agents."""
    speaker = "compacted here; the model goes on with" if message.get("summary") else message["role"]
    head = colourize(speaker, "bold") + colourize(f"  {message['created_at']}", "dim")
    decisions, parts = decided or {}, agents or {}
    texts: list[str] = []
    for index, block in enumerate(message["content"]):
        call_id = f"{message['id']}#{index}"
        texts.append(_format_block(block))
        if call_id in decisions:
            texts.append(f"  {colourize(f'({sanitize(decisions[call_id])})', 'dim')}")
        if call_id in parts:
            texts.append(parts[call_id])
    return "\n".join([head, *texts])


def format_agent(agent: dict[str, Any], *, opened: bool = False) -> str:
    """An agent's part in one line: its name, how it ended, what it used."""
    name = agent["name"] or agent["description"]
    facts = [agent["status"], _format_usage(agent["usage"])]
    words = f"{name} ({agent['kind']}): {', '.join(fact for fact in facts if fact)}"
    return colourize(f"  {'▾' if opened else '▸'} {sanitize(words)}", "cyan")


def indent_part(text: str) -> str:
    return textwrap.indent(text, "    ")


def _format_block(block: dict[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return sanitize(str(block.get("text", "")))
        case "thinking":
            return _indent("thinking: " + str(block.get("thinking", "")), "dim")
        case "tool_use" if block.get("name") in _BRIEF_NAMES:
            return colourize(f"✉ {sanitize(str((block.get('input') or {}).get('message', '')))}", "bold")
        case "tool_use":
            return f"{colourize(sanitize(str(block.get('name'))), 'cyan')} {sanitize(_format_json(block.get('input')))}"
        case "tool_result":
            failed = bool(block.get("is_error"))
            return _indent(_format_result(block.get("content", "")), "red" if failed else "dim")
        case other:
            return f"[{sanitize(str(other))}]"


def _format_result(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in content or [])


def _indent(text: str, colour: Colour) -> str:
    lines = textwrap.indent(sanitize(text), "  ").split("\n")
    return "\n".join(colourize(line, colour) for line in lines)


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
