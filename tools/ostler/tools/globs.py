"""Patterns of file names: `*` and `?` within one component, `**` across them, `[…]`, and `{a,b}`.

We match ourselves, since what ripgrep is told to include it includes even where .gitignore leaves it out.
"""

import re
from collections.abc import Callable
from typing import Final

_MAX_ALTERNATIVES: Final = 200
_ANY_NAME: Final = re.compile(r"(?:(?:\./)?\*\*/)?\*([^*?\[{\\/]*)")
_MAX_DEEP: Final = 4
"""How many `**` a pattern may have: the time to match a path grows with each."""


class BadPattern(Exception):
    """The pattern makes no sense, or too much of it."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """Tells whether a relative path matches as a whole; a pattern without a slash may match in any folder."""
    anywhere = "/" not in pattern.strip("/")
    expanded = expand(pattern)
    endings = tuple(map(_ending, expanded))
    if None not in endings:
        # The usual `**/*.py`: in a large tree the regular expression takes as long as the search itself.
        return lambda path: path.endswith(endings)  # type: ignore[arg-type]  # none of them is null
    alternatives = [_expression(each, anywhere=anywhere) for each in expanded]
    compiled = re.compile("|".join(alternatives), re.DOTALL)
    return lambda path: compiled.fullmatch(path) is not None


def _ending(pattern: str) -> str | None:
    """What a path has to end with, where nothing else is asked of it."""
    found = _ANY_NAME.fullmatch(pattern)
    return found[1] if found else None


def expand(pattern: str) -> list[str]:
    """The alternatives of all `{…}`."""
    pending, done = [pattern], list[str]()
    while pending:
        if len(pending) + len(done) > _MAX_ALTERNATIVES:
            raise BadPattern(f"The pattern has more than {_MAX_ALTERNATIVES} alternatives.")
        each = pending.pop()
        span = _innermost(each)
        if span is None:
            done.append(each)
            continue
        start, end = span
        pending += [each[:start] + part + each[end + 1 :] for part in each[start + 1 : end].split(",")]
    return done


def _innermost(pattern: str) -> tuple[int, int] | None:
    """Where the first closed pair of braces stands that holds no other."""
    start, index = -1, 0
    while index < len(pattern):
        if pattern[index] == "\\":
            index += 1
        elif pattern[index] == "{":
            start = index
        elif pattern[index] == "}" and start >= 0:
            return start, index
        index += 1
    return None


def literal_prefix(pattern: str) -> str:
    """The folders that the pattern begins with, by name."""
    components = pattern.split("/")[:-1]
    taken: list[str] = []
    for component in components:
        if _is_wild(component) or component in {"", ".", ".."}:
            break
        taken.append(component)
    return "/".join(taken)


def last_component(pattern: str) -> str:
    return pattern.rsplit("/", 1)[-1]


def _is_wild(component: str) -> bool:
    return bool(set(component) & set("*?[{\\"))


def names_something(pattern: str) -> bool:
    """Whether a whole component of it is spelled out: only then it can mean what is ignored otherwise."""
    return any(component and not _is_wild(component) for component in pattern.split("/"))


def _expression(pattern: str, *, anywhere: bool) -> str:
    components = [component for component in pattern.removeprefix("./").split("/") if component]
    if sum(component == "**" for component in components) > _MAX_DEEP:
        raise BadPattern(f"The pattern has more than {_MAX_DEEP} times `**`.")
    if anywhere and components != ["**"]:
        components.insert(0, "**")
    parts: list[str] = []
    for index, component in enumerate(components):
        last = index == len(components) - 1
        if component == "**":
            parts.append(".+" if last else "(?:[^/]+/)*")
        else:
            parts.append(_component(component) + ("" if last else "/"))
    return "".join(parts)


def _component(component: str) -> str:
    """Each `*` but the last takes the first fit and never tries another: enough, and in linear time."""
    pieces = [""]
    index = 0
    while index < len(component):
        if component[index] == "*":
            index += 1
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
            continue
        text, index = _character(component, index)
        pieces[-1] += text
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1])
    return f"{pieces[0]}{middle}[^/]*{pieces[-1]}"


def _character(component: str, index: int) -> tuple[str, int]:
    character = component[index]
    if character == "?":
        return "[^/]", index + 1
    if character == "\\" and index + 1 < len(component):
        return re.escape(component[index + 1]), index + 2
    if character == "[":
        end = component.find("]", index + 2 + (component[index + 1 : index + 2] in {"!", "^"}))
        if end > 0:
            return _character_class(component[index + 1 : end]), end + 1
    return re.escape(character), index + 1


def _character_class(inside: str) -> str:
    negated = inside[0] in "!^"
    body = inside[1:] if negated else inside
    escaped = re.sub(r"([\\\[\]&~|^])", r"\\\1", body)
    try:
        re.compile(f"[{escaped}]")
    except re.error:
        raise BadPattern(f"[{inside}] is no set of characters.") from None
    # Never a slash: a set stands for one character of a name.
    return f"(?!/)[{'^' if negated else ''}{escaped}]"
