"""Parses a rule as people write it: `Tool` or `Tool(content)`.

Parentheses inside a content come in pairs, or with a backslash before them. No other backslash means anything here: it
belongs to the content, as in `Bash(grep a\\.b)`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools.permissions.rule_content import BadContent, check_content
from ostler.tools.text import fit_text

_MAX_LENGTH: Final = 10_000
_TOOL: Final = compile_later(r"[A-Za-z_][A-Za-z0-9_-]*")
_MCP: Final = compile_later(r"mcp__[^\s()*]+?(?=__\*|[\s()*]|\Z)")
_REFUSED: Final = compile_later(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""What no rule may contain: control characters, and lone surrogates, which cannot be stored."""


class BadRule(ValueError):
    """A rule that cannot be parsed: what is wrong with it, where in its text, and its tool, if that is known."""

    def __init__(self, message: str, position: int = 0, tool: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.tool = tool


@dataclass(frozen=True, slots=True)
class Rule:
    tool: str
    """A whole MCP server is `mcp__server`, however it was written."""
    content: str | None
    """None matches every call of the tool."""
    text: str


@lru_cache(maxsize=4_096)
def parse_rule(text: str) -> Rule:
    """The rule, or `BadRule`: nothing that looks like a mistake is read as a wider rule."""
    shift = len(text) - len(text.lstrip())
    stripped = text.strip()
    if len(stripped) > _MAX_LENGTH:
        raise BadRule(f"The rule has more than {_MAX_LENGTH} characters.")
    strange = _REFUSED.search(stripped)
    tool, end = _parse_tool(stripped, shift)
    if strange:
        raise BadRule("The rule holds a character that cannot be seen or stored.", shift + strange.start(), tool)
    rest = stripped[end:].lstrip()
    if not rest:
        return Rule(tool, None, stripped)
    start = len(stripped) - len(rest)
    if rest[0] != "(":
        # What comes first is perhaps not the name that was meant.
        raise BadRule(f"{_shorten(stripped)} is no rule: write Tool or Tool(content).", shift + start)
    if rest[-1] != ")":
        raise BadRule(_describe_unclosed(stripped, rest), shift + len(stripped), tool)
    content = _unescape(rest[1:-1], shift + start + 1, tool)
    try:
        return Rule(tool, check_content(tool, content), stripped)
    except BadContent as error:
        raise BadRule(str(error), shift + start + 1 + error.position, tool) from None


def format_rule(tool: str, content: str | None) -> str:
    """The text that `parse_rule` parses to just this."""
    if content is None:
        return tool
    return f"{tool}({re.sub(r'[()]', lambda found: chr(92) + found[0], content)})"


def _parse_tool(text: str, shift: int) -> tuple[str, int]:
    if text.startswith("mcp__"):
        return _parse_mcp_name(text, shift)
    found = _TOOL.match(text)
    if found is None:
        raise BadRule(f"{_shorten(text)} is no rule: it begins with the name of a tool.", shift)
    if text[found.end() : found.end() + 1] == "*":
        raise BadRule(f"{_shorten(text)} is no rule: name one tool, without *.", shift + found.end())
    return found[0], found.end()


def _parse_mcp_name(text: str, shift: int) -> tuple[str, int]:
    found = _MCP.match(text)
    if found is None or found[0].endswith("__"):
        raise BadRule(f"{_shorten(text)} is no rule: name an MCP server, as in mcp__server.", shift + 5)
    end = found.end()
    if text.startswith("__*", end):
        end += 3
    if text[end : end + 1] == "*":
        message = f"{_shorten(text)} is no rule: * stands only for all tools of a server, as in mcp__server__*."
        raise BadRule(message, shift + end, None)
    return found[0], end


def _unescape(inner: str, start: int, tool: str) -> str:
    """The content without its escapes; parentheses that have none must come in pairs."""
    if not re.search(r"[()]", inner):
        return inner
    taken: list[str] = []
    opened: list[int] = []
    index = 0
    while index < len(inner):
        character = inner[index]
        if character == "\\" and inner[index + 1 : index + 2] in {"(", ")"}:
            index += 1
            character = inner[index]
        elif character == "(":
            opened.append(index)
        elif character == ")":
            if not opened:
                raise BadRule(
                    "A parenthesis is closed that was never opened: write \\) for its own sake.", start + index, tool
                )
            opened.pop()
        taken.append(character)
        index += 1
    if opened:
        raise BadRule("A parenthesis is never closed: write \\( for its own sake.", start + opened[-1], tool)
    return "".join(taken)


def _describe_unclosed(text: str, rest: str) -> str:
    if ")" in rest:
        return f"{_shorten(text)} is no rule: something stands behind the last parenthesis."
    return f"{_shorten(text)} is no rule: the parenthesis is never closed."


def _shorten(text: str) -> str:
    return repr(fit_text(text, 80))
