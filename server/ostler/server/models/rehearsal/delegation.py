"""Parses `ask two agents to …`: how many agents, of which kind, how, and what each of them is to do."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.server.models.rehearsal.phrases import Phrase
from ostler.server.models.rehearsal.steps import Delegate, Join, Unclear

MAX_AGENTS: Final = 10

_WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS: Final = {word: at for at, word in enumerate(_WORDS, 1)} | {"a": 1, "an": 1, "some": 2}
VERB: Final = rf"ask (?:{'|'.join(_NUMBERS)}|\d{{1,3}}) (?:other )?(?:background )?(?:[\w-]+ )?agents?"
"""How such a request begins, in small letters."""

_PARTS: Final = compile_later(
    r"ask (?P<count>\S+) (?:other )?(?P<background>background )?(?:(?P<kind>[\w-]+) )?agents?", re.IGNORECASE
)
_OPTION: Final = compile_later(
    r",?\s*(?:and\s+)?(?:(?P<background>in (?:the )?background)"
    r"|(?P<isolated>in (?:a |git )?(?:git )?worktrees?(?: of (?:its|their) own)?))(?=[\s,:.]|$)"
)
_TO: Final = compile_later(r"[,:]?\s*(?:to\s+)?")
_FILLERS: Final = compile_later(r"(?:(?:and|then|also)\s+)+")
_END: Final = compile_later(rf"(?:{_OPTION.pattern})\.?$")

Pieces = Callable[[Phrase], Iterator[tuple[Phrase, Join]]]
"""Cuts a request into its steps."""


def parse_delegation(verb: str, rest: Phrase, split: Pieces) -> Delegate | Unclear:
    """The verb is as it was written: names of kinds have capitals."""
    parts = _PARTS.fullmatch(verb)
    count = _NUMBERS.get(parts["count"].lower(), 0) if parts else 0
    if parts and not count and parts["count"].isdigit():
        count = int(parts["count"])
    if parts is None or not 1 <= count <= MAX_AGENTS:
        return Unclear(f"I ask one to {MAX_AGENTS} agents at a time.")
    found = Delegate((), parts["kind"], in_background=parts["background"] is not None)
    rest, found = _take_options(rest, found)
    pieces = list(split(rest)) if rest else []
    if not pieces:
        return Unclear("Say what they are to do: `ask two agents to read FILE and run COMMAND`.")
    return replace(found, works=_share_out(rest, pieces, count))


def _take_options(rest: Phrase, found: Delegate) -> tuple[Phrase, Delegate]:
    """`in the background` and `in worktrees`, before what is to be done or behind it."""
    while option := _OPTION.match(rest.mask):
        found = _apply_option(found, option)
        rest = rest.cut(option.end())
    rest = rest.strip_prefix(_TO)
    while option := _END.search(rest.mask):
        found = _apply_option(found, option)
        rest = rest.cut(0, option.start())
    return rest, found


def _apply_option(found: Delegate, option: re.Match[str]) -> Delegate:
    return replace(found, in_background=True) if option["background"] else replace(found, isolated=True)


def _share_out(rest: Phrase, pieces: list[tuple[Phrase, Join]], count: int) -> tuple[str, ...]:
    """Each agent gets its own steps where there are enough of them, else each gets all."""
    groups: list[str] = []
    for piece, join in pieces:
        # What is done `then` is done by the same agent.
        if groups and join == "after":
            groups[-1] += f" then {piece.strip_prefix(_FILLERS).text}"
        else:
            groups.append(piece.strip_prefix(_FILLERS).text)
    if len(groups) < count:
        return (rest.text,) * count
    return tuple("; ".join(groups[at::count]) for at in range(count))
