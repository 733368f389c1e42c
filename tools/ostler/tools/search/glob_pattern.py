"""Patterns of file names: `*` and `?` within one component, `**` across them, `[…]`, and `{a,b}`.

We match ourselves, since what ripgrep is told to include it includes even where .gitignore leaves it out.
"""

import re
from collections.abc import Callable
from typing import Final

_MAX_CHARS: Final = 4_096
_MAX_ALTERNATIVES: Final = 200
_MAX_EXPANDED: Final = 20_000
"""Characters of all alternatives: the time to compile them grows with each."""
_PIECES: Final = re.compile(r"[{},]|(?:[^{},\\]|\\.|\\\Z)+", re.DOTALL)
_ANY_NAME: Final = re.compile(r"(?:(?:\./)?\*\*/)?\*([^*?\[{\\/]*)")
_MAX_DEEP: Final = 4
"""How many `**` a pattern may have: the time to match a path grows with each."""


class BadPattern(Exception):
    """The pattern makes no sense, or too much of it."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """Tells whether a relative path matches as a whole; a pattern without a slash may match in any folder.

    Belongs on a thread: to compile the longest takes a while. Raises BadPattern.
    """
    if len(pattern) > _MAX_CHARS:
        raise BadPattern(f"The pattern is too long: more than {_MAX_CHARS} characters.")
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


class _Braces:
    """A pair of braces that is open: the texts of its parts so far, in all their alternatives."""

    def __init__(self) -> None:
        self.parts = [[""]]

    def follow(self, texts: list[str]) -> None:
        """Each of these may stand after what is there."""
        self.parts[-1] = _joined(self.parts[-1], texts)

    def closed(self) -> list[str]:
        return _bounded([text for part in self.parts for text in part])

    def unclosed(self) -> list[str]:
        """Then it is a brace like any other letter."""
        texts = ["{"]
        for index, part in enumerate(self.parts):
            texts = _joined(texts, [f",{text}" for text in part] if index else part)
        return texts


def expand(pattern: str) -> list[str]:
    """The alternatives of all `{…}`, in one pass."""
    outermost = _Braces()
    open_ones = [outermost]
    for piece in _PIECES.findall(pattern):
        innermost = open_ones[-1]
        if piece == "{":
            open_ones.append(_Braces())
        elif piece == "," and innermost is not outermost:
            innermost.parts.append([""])
        elif piece == "}" and innermost is not outermost:
            open_ones.pop()
            open_ones[-1].follow(innermost.closed())
        else:
            innermost.follow([piece])
    while len(open_ones) > 1:
        unclosed = open_ones.pop().unclosed()
        open_ones[-1].follow(unclosed)
    return outermost.closed()


def _joined(first: list[str], second: list[str]) -> list[str]:
    if len(first) * len(second) > _MAX_ALTERNATIVES:
        raise BadPattern(f"The pattern has more than {_MAX_ALTERNATIVES} alternatives.")
    return _bounded([before + after for before in first for after in second])


def _bounded(alternatives: list[str]) -> list[str]:
    if len(alternatives) > _MAX_ALTERNATIVES:
        raise BadPattern(f"The pattern has more than {_MAX_ALTERNATIVES} alternatives.")
    if sum(map(len, alternatives)) > _MAX_EXPANDED:
        raise BadPattern(f"The alternatives of the pattern have more than {_MAX_EXPANDED} characters.")
    return alternatives


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


def spelled_out(pattern: str) -> frozenset[str]:
    """The names in it without a wildcard, in all alternatives: only those can mean what is ignored otherwise."""
    components = (component for each in expand(pattern) for component in each.split("/"))
    return frozenset(component for component in components if component not in {"", "."} and not _is_wild(component))


def _expression(pattern: str, *, anywhere: bool) -> str:
    components = [component for component in pattern.removeprefix("./").split("/") if component]
    if sum(component == "**" for component in components) > _MAX_DEEP:
        raise BadPattern(f"The pattern has more than {_MAX_DEEP} times `**`.")
    if anywhere and components != ["**"]:
        components.insert(0, "**")
    runs: list[list[str]] = [[]]
    for component in components:
        if component != "**":
            runs[-1].append(_component(component))
        elif runs[-1] or len(runs) == 1:
            runs.append([])
    return _in_order(runs)


def _in_order(runs: list[list[str]]) -> str:
    """Runs of components with `**` between them: as with `*`, each but the last takes the first fit."""
    if len(runs) == 1:
        return "/".join(runs[0])
    first, *middle, last = runs
    folders = ["".join(f"{component}/" for component in run) for run in middle]
    found = "".join(f"(?>(?:[^/]+/)*?{each})" for each in folders)
    return "".join(f"{component}/" for component in first) + found + (f"(?:[^/]+/)*{'/'.join(last)}" if last else ".+")


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
        raise BadPattern(f"[{inside[:100]}] is no set of characters.") from None
    # Never a slash: a set stands for one character of a name.
    return f"(?!/)[{'^' if negated else ''}{escaped}]"
