"""Translates one pattern of `.gitignore` to a regular expression.

Each `*` and `**` but the last takes the first match and never backtracks. That loses nothing, as an earlier match only
leaves more of the path for what follows, and it keeps the time far from exponential. It still grows with the length of
the path times the number of wildcards, which is why there may not be many.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ostler.protocol.patterns import compile_later

_MAX_WILDCARDS: Final = 50
_CLASSES: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r" \t-\r", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_DEEP: Final = compile_later(r"\*{2,}")
_WILD: Final = compile_later(r"\*+|[?\[]")
_ESCAPED: Final = compile_later(r"\\.", re.DOTALL)
_BRACES: Final = compile_later(r"\{[^{},]*,[^{}]*\}")
_FOLDERS: Final = r"(?:[^/]+/)*?"
_END: Final = r"(?=/|\Z)"


class BadPattern(ValueError):
    """A pattern that git would never match with anything, or that we do not take; where it goes wrong."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


@dataclass(frozen=True, slots=True)
class Translation:
    literal: tuple[str, ...]
    """The names that the pattern begins with, spelled out."""
    expression: str
    """What has to follow them, after a slash; empty where they are all."""
    folders_only: bool
    needle: str
    """The longest text that every matching path contains: most other paths are ruled out by that alone."""


def translate(pattern: str, *, anchored: bool) -> Translation:
    """The pattern, which has no slash in front; one that is not anchored may match in any folder."""
    folders_only = pattern.endswith("/") or not pattern
    body = pattern.removesuffix("/")
    _check_syntax(_ESCAPED.sub("__", body))
    components = _split_components(body) if body else []
    anchored = anchored or "/" in body
    literal = _take_literal_names(components) if anchored else ()
    rest = components[len(literal) :]
    needle = max((run for _, component in rest for run in _split_plain_runs(component)), key=len, default="")
    if not anchored and rest:
        rest = [(-1, "**"), *rest]
    return Translation(literal, _build_expression(rest), folders_only, needle)


def _check_syntax(body: str) -> None:
    """Of a pattern in which nothing is escaped any more."""
    braces = _BRACES.search(body)
    if braces:
        # Git would look for the braces themselves, which is hardly what anybody means.
        message = "Braces are no alternatives here: write a rule for each, or \\{ for a name."
        raise BadPattern(message, braces.start())
    one_more = next(islice(_WILD.finditer(body), _MAX_WILDCARDS, None), None)
    if one_more:
        raise BadPattern(f"The pattern has more than {_MAX_WILDCARDS} wildcards.", one_more.start())


_Component = tuple[int, str]
"""A component of the pattern and where it begins."""


def _split_components(body: str) -> list[_Component]:
    found: list[_Component] = []
    place = 0
    for component in body.split("/"):
        if component in {"", ".", ".."}:
            what = "an empty component" if not component else f"the component {component!r}"
            raise BadPattern(f"The pattern has {what}, which no path has.", place)
        found.append((place, component))
        place += len(component) + 1
    return found


def _take_literal_names(components: Sequence[_Component]) -> tuple[str, ...]:
    taken: list[str] = []
    for place, component in components:
        if _WILD.search(_ESCAPED.sub("", component)):
            break
        taken.append("".join(_unescape(component, place)))
    return tuple(taken)


def _split_plain_runs(component: str) -> list[str]:
    """The literal parts of a name; what follows a bracket or a backslash is left out."""
    plain = re.split(r"[\[\\]", component, maxsplit=1)[0]
    return re.split(r"[*?]+", plain)


def _unescape(component: str, place: int) -> list[str]:
    taken: list[str] = []
    index = 0
    while index < len(component):
        if component[index] == "\\":
            index += 1
            if index == len(component):
                raise BadPattern("The backslash at the end escapes nothing.", place + index - 1)
        taken.append(component[index])
        index += 1
    return taken


def _build_expression(components: Sequence[_Component]) -> str:
    parts: list[str] = []
    run: list[str] = []
    deep = False
    for place, component in components:
        if not _DEEP.fullmatch(component):
            run.append(_translate_name(component, place))
            continue
        parts += _join_run(run, deep=deep)
        run, deep = [], True
    if deep and not run:
        run = ["[^/]+"]
    return "/".join([*parts, *_join_run(run, deep=deep)])


def _join_run(names: Sequence[str], *, deep: bool) -> list[str]:
    """Components in a row; after a `**` they may be at any depth."""
    if not names:
        return []
    row = "/".join(names)
    return [f"(?>{_FOLDERS}{row}{_END})" if deep else row]


def _translate_name(component: str, place: int) -> str:
    pieces = [""]
    index = 0
    while index < len(component):
        if component[index] == "*":
            index += 1
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
            continue
        text, index = _translate_character(component, index, place)
        pieces[-1] += text
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1])
    # A name is never empty, even where every star is.
    return rf"(?=[^/]){pieces[0]}{middle}[^/]*{pieces[-1]}{_END}"


def _translate_character(component: str, index: int, place: int) -> tuple[str, int]:
    match component[index]:
        case "?":
            return "[^/]", index + 1
        case "[":
            return _translate_set(component, index, place)
        case "\\":
            if index + 1 == len(component):
                raise BadPattern("The backslash at the end escapes nothing.", place + index)
            return re.escape(component[index + 1]), index + 2
        case other:
            return re.escape(other), index + 1


def _translate_set(component: str, start: int, place: int) -> tuple[str, int]:
    """`[…]` as git reads it: a `]` in front is itself, a backslash escapes, ranges and `[:classes:]` work."""
    index = start + 1
    negated = component[index : index + 1] in {"!", "^"}
    index += negated
    first, body = index, ""
    while index < len(component):
        if component[index] == "]" and index > first:
            # Never a slash: a set matches one character of a name.
            return f"(?!/)[{'^' if negated else ''}{body}]", index + 1
        text, index = _translate_member(component, index, place)
        body += text
    raise BadPattern("The [ is never closed: write \\[ for its own sake.", place + start)


def _translate_member(component: str, index: int, place: int) -> tuple[str, int]:
    if component.startswith("[:", index):
        end = component.find(":]", index + 2)
        name = component[index + 2 : end] if end > 0 else ""
        if name not in _CLASSES:
            raise BadPattern(f"There is no class of characters {component[index : index + 12]!r}.", place + index)
        return _CLASSES[name], end + 2
    low, after = _read_member(component, index, place)
    if component[after : after + 1] != "-" or component[after + 1 : after + 2] in {"", "]"}:
        return re.escape(low), after
    high, end = _read_member(component, after + 1, place)
    if high < low:
        raise BadPattern(f"The range {low}-{high} holds nothing: it runs backwards.", place + index)
    return f"{re.escape(low)}-{re.escape(high)}", end


def _read_member(component: str, index: int, place: int) -> tuple[str, int]:
    if component[index] != "\\":
        return component[index], index + 1
    if index + 1 == len(component):
        raise BadPattern("The [ is never closed: write \\[ for its own sake.", place + index)
    return component[index + 1], index + 2
