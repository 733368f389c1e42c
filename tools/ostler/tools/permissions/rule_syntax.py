"""A rule as people write it: `Tool` or `Tool(content)`.

Parentheses inside a content come in pairs, or with a backslash before them. No other backslash means anything here: it
belongs to the content, as in `Bash(grep a\\.b)`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ostler.tools.permissions.rule_content import BadContent, check_content

_MAX_LENGTH: Final = 10_000
_TOOL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MCP: Final = re.compile(r"mcp__[^\s()*]+?(?=__\*|[\s()*]|\Z)")
_NEVER: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""What no tool gets as a text: control characters, and halves of characters that cannot be stored."""


class BadRule(ValueError):
    """A rule that cannot be read: what is wrong with it, where in its text, and of which tool it speaks, if it says."""

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
    """None speaks of every call of the tool."""
    text: str


@lru_cache(maxsize=4_096)
def parse_rule(text: str) -> Rule:
    """The rule, or `BadRule`: nothing that looks like a slip is taken for something wider."""
    shift = len(text) - len(text.lstrip())
    stripped = text.strip()
    if len(stripped) > _MAX_LENGTH:
        raise BadRule(f"The rule has more than {_MAX_LENGTH} characters.")
    strange = _NEVER.search(stripped)
    tool, end = _tool(stripped, shift)
    if strange:
        raise BadRule("The rule holds a character that cannot be seen or stored.", shift + strange.start(), tool)
    rest = stripped[end:].lstrip()
    if not rest:
        return Rule(tool, None, stripped)
    start = len(stripped) - len(rest)
    if rest[0] != "(":
        # What stands in front is perhaps not the name that was meant.
        raise BadRule(f"{_short(stripped)} is no rule: write Tool or Tool(content).", shift + start)
    if rest[-1] != ")":
        raise BadRule(_unclosed(stripped, rest), shift + len(stripped), tool)
    content = _unescaped(rest[1:-1], shift + start + 1, tool)
    try:
        return Rule(tool, check_content(tool, content), stripped)
    except BadContent as error:
        raise BadRule(str(error), shift + start + 1 + error.position, tool) from None


def rule_text(tool: str, content: str | None) -> str:
    """The text that `parse_rule` reads as just this."""
    if content is None:
        return tool
    return f"{tool}({re.sub(r'[()]', lambda found: chr(92) + found[0], content)})"


def _tool(text: str, shift: int) -> tuple[str, int]:
    if text.startswith("mcp__"):
        return _server_or_tool(text, shift)
    found = _TOOL.match(text)
    if found is None:
        raise BadRule(f"{_short(text)} is no rule: it begins with the name of a tool.", shift)
    if text[found.end() : found.end() + 1] == "*":
        raise BadRule(f"{_short(text)} is no rule: name one tool, without *.", shift + found.end())
    return found[0], found.end()


def _server_or_tool(text: str, shift: int) -> tuple[str, int]:
    found = _MCP.match(text)
    if found is None or found[0].endswith("__"):
        raise BadRule(f"{_short(text)} is no rule: name an MCP server, as in mcp__server.", shift + 5)
    end = found.end()
    if text.startswith("__*", end):
        end += 3
    if text[end : end + 1] == "*":
        message = f"{_short(text)} is no rule: * stands only for all tools of a server, as in mcp__server__*."
        raise BadRule(message, shift + end, None)
    return found[0], end


def _unescaped(inner: str, start: int, tool: str) -> str:
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


def _unclosed(text: str, rest: str) -> str:
    if ")" in rest:
        return f"{_short(text)} is no rule: something stands behind the last parenthesis."
    return f"{_short(text)} is no rule: the parenthesis is never closed."


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")
