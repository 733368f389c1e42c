"""Parses a request in plain words into steps; what is not understood becomes a step that says so."""

import re
from collections.abc import Iterator
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.server.models.rehearsal import delegation
from ostler.server.models.rehearsal.phrases import Phrase, parse_phrase
from ostler.server.models.rehearsal.steps import (
    Delegate,
    Introduce,
    Join,
    ListItem,
    MakeList,
    Plan,
    RequestedStep,
    Unclear,
)
from ostler.server.models.rehearsal.verbs import COMMANDS, VERBS

LISTS: Final = ("make a list", "make a todo list")
HOLDERS: Final = ("plan", *LISTS)
MAX_CHARS: Final = 50_000
MAX_STEPS: Final = 100
MAX_ITEMS: Final = 30
MAX_SHOWN_CHARS: Final = 80
MAX_PLANNED_CHARS: Final = 1_000
"""Of one step, as people are shown it: in what it says beside the work, and in a plan."""

_GREETINGS: Final = frozenset(
    {"", "hello", "hi", "hey", "help", "help me", "examples", "what can you do", "what are you", "who are you"}
)
_FILLERS: Final = (
    r"and|then|now|please|first|also|next|finally|lastly|afterwards|just|ok|okay|hello|hi|hey|can you|could you"
    r"|would you|will you|i want you to|i'd like you to|let's|you"
)
_START: Final = compile_later(
    rf"(?:[-*•]\s+|\d{{1,3}}[.)]\s+)?(?P<fill>(?:(?:{_FILLERS})\b[,:!.]?\s+){{0,4}})"
    rf"(?P<verb>(?P<holder>{delegation.VERB}|{'|'.join(sorted(HOLDERS, key=len, reverse=True))})"
    rf"|{'|'.join(sorted(VERBS, key=len, reverse=True))})(?=[\s\0:;,!?]|$|\.(?:\s|$))"
)
_JOINER: Final = compile_later(
    r"[;\n][;\s]*|,\s+|(?<=\S)\.\s+|\b(?:and|then|afterwards)\b\s*"
)  # a dot alone is a folder
_AFTER: Final = compile_later(r"\b(?:then|afterwards|next|finally|lastly)\b")
_COLON: Final = compile_later(r"[:,]\s*")
_OF: Final = compile_later(r"(?:of|with|for)\s+|(?:the\s+)?(?:todos?|items?)[:,]?\s+")
_NEXT_ITEM: Final = compile_later(r"[,;\n]\s*(?:and\s+)?|\s+and\s+")
_TO: Final = compile_later(r"(?:to|how to)\s+")
_SHELL_WORDS: Final = frozenset({"find", "wait"})
"""After `run …;` these are more likely the next command than the next step."""


def parse(text: str, *, inside: frozenset[str] = frozenset()) -> list[RequestedStep]:
    """The steps in order; what is not understood is among them, and says so. `inside`: the verbs that hold it."""
    if len(text) > MAX_CHARS:
        return [
            RequestedStep(Unclear(f"That is longer than the {MAX_CHARS:,} characters that I read."), _shorten(text))
        ]
    whole = parse_phrase(text)
    if whole.mask.strip(" .!?") in _GREETINGS:
        return [RequestedStep(Introduce(), whole.text)]
    found = [requested for piece, join in _split_request(whole) for requested in _parse_piece(piece, join, inside)]
    if len(found) > MAX_STEPS:
        rest = RequestedStep(
            Unclear(f"I take at most {MAX_STEPS} steps at a time."), f"the other {len(found) - MAX_STEPS} steps"
        )
        return [*found[:MAX_STEPS], rest]
    return found


def _split_request(whole: Phrase) -> Iterator[tuple[Phrase, Join]]:
    """The request, cut where a joining word is followed by a verb."""
    start = 0
    join: Join = "apart"
    verb = _START.match(whole.mask)
    # What is planned, listed or handed over has its own joining words: it goes on to the end.
    while not (verb and verb["holder"]):
        cut = _find_next_cut(whole, verb.end() if verb else start, verb["verb"] if verb else "")
        if cut is None:
            break
        joiner, verb = cut
        if piece := whole.cut(start, joiner.start()):
            yield piece, join
        start, join = joiner.end(), _choose_join(joiner.group(), verb["fill"])
    if rest := whole.cut(start):
        yield rest, join


def _find_next_cut(whole: Phrase, place: int, verb: str) -> tuple[re.Match[str], re.Match[str]] | None:
    for joiner in _JOINER.finditer(whole.mask, place):
        following = _START.match(whole.mask, joiner.end())
        in_command = verb in COMMANDS and joiner.group().startswith(";")
        if following and not (in_command and following["verb"] in _SHELL_WORDS):
            return joiner, following
    return None


def _choose_join(joiner: str, fillers: str) -> Join:
    if _AFTER.search(joiner) or _AFTER.search(fillers):
        return "after"
    return "with" if joiner.startswith(("and", ",")) else "apart"


def _parse_piece(piece: Phrase, join: Join, inside: frozenset[str]) -> list[RequestedStep]:
    verb = _START.match(piece.mask)
    if verb is None:
        return [RequestedStep(Unclear(), _shorten(piece.text), join)]
    rest = piece.cut(verb.end()).strip_prefix(_COLON)
    # A plan that people are to approve says what it is.
    words = _shorten(piece.text[verb.start("verb") :], MAX_PLANNED_CHARS if "plan" in inside else MAX_SHOWN_CHARS)
    if verb["holder"]:
        written = piece.text[verb.start("verb") : verb.end("verb")]
        return [RequestedStep(_parse_holder(written, rest, inside), words, join)]
    steps = VERBS[verb["verb"]](rest)
    if len(steps) == 1:
        return [RequestedStep(steps[0], words, join)]
    # Several files in one step are read beside each other.
    return [RequestedStep(step, words, join if at == 0 else "with") for at, step in enumerate(steps)]


def _parse_holder(verb: str, rest: Phrase, inside: frozenset[str]) -> Plan | MakeList | Delegate | Unclear:
    """A request that holds requests of its own: a plan may hold a list, and both may hold work for agents."""
    held = verb.lower()
    if held not in HOLDERS:
        return delegation.parse_delegation(verb, rest, _split_request)
    if inside.intersection(LISTS) or (inside and held == "plan"):
        return Unclear("A plan or a list cannot hold another one.")
    return _parse_plan(rest) if held == "plan" else _parse_list(rest)


def _parse_plan(rest: Phrase) -> Plan | Unclear:
    steps = parse(rest.strip_prefix(_TO).text, inside=frozenset({"plan"})) if rest else []
    return Plan(tuple(steps)) if steps else Unclear("Say what to plan: `plan read FILE then run COMMAND`.")


def _parse_list(rest: Phrase) -> MakeList | Unclear:
    subjects = [part.text.strip(" .") for part in rest.strip_prefix(_OF).split(_NEXT_ITEM)]
    items = tuple(ListItem(subject, _parse_item(subject)) for subject in dict.fromkeys(subjects) if subject)
    return MakeList(items[:MAX_ITEMS]) if items else Unclear("Say what is on it: `make a list: oats, hay, water`.")


def _parse_item(subject: str) -> tuple[RequestedStep, ...]:
    """What an item asks for; nothing where not all of it is understood."""
    steps = parse(subject, inside=frozenset(LISTS))
    unclear = any(isinstance(requested.step, Unclear | Introduce) for requested in steps)
    return () if unclear else tuple(steps)


def _shorten(text: str, width: int = MAX_SHOWN_CHARS) -> str:
    line = " ".join(text[: 2 * width + 40].split())
    return line if len(line) <= width and len(text) <= 2 * width + 40 else line[: width - 1] + "…"
