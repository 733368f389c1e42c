"""Finds tools for a query: by exact name, or by words in name, hint and description, the best first."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ostler.tools.discovery.deferral import MCP_PREFIX
from ostler.tools.services import DeferredTool

_SELECT: Final = re.compile(r"\s*select\s*:", re.IGNORECASE)
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_TERM: Final = re.compile(r"\+?[\w-]+")
_EXACT, _INSIDE, _HINTED, _DESCRIBED = 10, 5, 4, 2
_EXACT_MCP, _INSIDE_MCP = 12, 6
"""Tools of servers have long names: a word in one says more about it."""
_COMMON: Final = frozenset(
    {
        "a",
        "an",
        "and",
        "for",
        "from",
        "in",
        "into",
        "is",
        "of",
        "on",
        "or",
        "that",
        "the",
        "to",
        "tool",
        "tools",
        "with",
    }
)
"""Words that say nothing about what is looked for, unless there are no others."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for."""

    names: tuple[str, ...] | None
    """Of `select:A,B`."""
    required: tuple[str, ...] = ()
    """Words that the name must have."""
    words: tuple[str, ...] = ()
    """All words, the required ones too."""


def parse_query(text: str) -> Query:
    """`select:A,B`, or words, those with a `+` required in the name."""
    if (select := _SELECT.match(text)) is not None:
        names = (name.strip().strip("`'\"") for name in text[select.end() :].split(","))
        return Query(tuple(dict.fromkeys(name for name in names if name)))
    terms = dict.fromkeys(found[0].lower() for found in _TERM.finditer(text))
    required = tuple(term[1:] for term in terms if term[0] == "+")
    return Query(None, required, tuple(dict.fromkeys(term.lstrip("+") for term in terms)))


def find_named(tools: Sequence[DeferredTool], name: str) -> DeferredTool | None:
    """The tool of this name or alias; upper and lower case count only where nothing else tells two apart."""
    small = name.casefold()
    exact = (tool for tool in tools if name == tool.name or name in tool.aliases)
    similar = (tool for tool in tools if small in {each.casefold() for each in (tool.name, *tool.aliases)})
    return next(exact, None) or next(similar, None)


def rank(tools: Sequence[DeferredTool], query: Query) -> list[DeferredTool]:
    """Those that have anything to do with the words, the best first; of equals in the order of the tools."""
    telling = [word for word in query.words if word not in _COMMON] or query.words
    scored = [
        (score, at)
        for at, tool in enumerate(tools)
        if all(word in _get_own_name(tool).lower() for word in query.required) and (score := _score(tool, telling)) > 0
    ]
    return [tools[at] for _, at in sorted(scored, key=lambda each: (-each[0], each[1]))]


def _score(tool: DeferredTool, words: Sequence[str]) -> int:
    name = _get_own_name(tool).lower()
    # Blanks around both, so that each word has a character before and behind it.
    text, described_at = f" {tool.hint} \n {tool.description} ".lower(), len(tool.hint) + 2
    of_server = tool.name.startswith(MCP_PREFIX)
    parts: frozenset[str] | None = None
    score = 0
    for word in words:
        if word in name or word == tool.name.lower():
            parts = frozenset(_split_name(tool)) if parts is None else parts
            if word in parts:
                score += _EXACT_MCP if of_server else _EXACT
            else:
                score += _INSIDE_MCP if of_server else _INSIDE
        at = _find_word(text, word, 0)
        if 0 <= at < described_at:
            score += _HINTED
            at = _find_word(text, word, described_at)
        score += _DESCRIBED * (at >= 0)
    return score


def _find_word(text: str, word: str, start: int) -> int:
    """Where it stands by itself, and not inside of another; -1 where it does not."""
    at = text.find(word, start)
    while at >= 0:
        end = at + len(word)
        if not (text[at - 1].isalnum() or text[end].isalnum()):
            return at
        at = text.find(word, end)
    return -1


def _get_own_name(tool: DeferredTool) -> str:
    """Without what all tools of servers begin with."""
    return tool.name.removeprefix(MCP_PREFIX)


def _split_name(tool: DeferredTool) -> Iterator[str]:
    """The words of a name, and the whole of it: `mcp__tracker__list_open` has tracker, list and open."""
    name = _get_own_name(tool)
    yield tool.name.lower()
    yield from (part.lower() for part in name.split("_"))
    yield from (found[0].lower() for found in _PARTS.finditer(name))
