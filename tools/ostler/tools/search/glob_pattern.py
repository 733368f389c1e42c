"""Glob patterns as regular expressions: `*` and `?` within one component, `**` across them, `[…]`, and `{a,b}`.

We match ourselves, since ripgrep's --glob includes files even where .gitignore excludes them.
"""

import re
from collections.abc import Callable
from typing import Final

from ostler.protocol.patterns import compile_later

_MAX_CHARS: Final = 4_096
_MAX_ALTERNATIVES: Final = 200
_MAX_EXPANDED: Final = 20_000
"""Characters of all alternatives: the time to compile them grows with each."""
_PIECES: Final = compile_later(r"[{},]|(?:[^{},\\]|\\.|\\\Z)+", re.DOTALL)
_ANY_NAME: Final = compile_later(r"(?:(?:\./)?\*\*/)?\*([^*?\[{\\/]*)")
_MAX_DOUBLE_STARS: Final = 4
"""How many `**` a pattern may have: the time to match a path grows with each."""


class BadPattern(Exception):
    """The pattern is not valid, or exceeds a limit."""


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Returns a function that matches a relative path as a whole; a pattern without a slash matches in any folder.

    Belongs on a thread: a long pattern takes a while to compile. Raises BadPattern.
    """
    if len(pattern) > _MAX_CHARS:
        raise BadPattern(f"The pattern is too long: more than {_MAX_CHARS} characters.")
    anywhere = "/" not in pattern.strip("/")
    expanded = expand(pattern)
    endings = tuple(map(_get_ending, expanded))
    if None not in endings:
        # The usual `**/*.py`: in a large tree the regular expression takes as long as the search itself.
        return lambda path: path.endswith(endings)  # type: ignore[arg-type]  # none of them is null
    alternatives = [_build_expression(each, anywhere=anywhere) for each in expanded]
    compiled = re.compile("|".join(alternatives), re.DOTALL)
    return lambda path: compiled.fullmatch(path) is not None


def _get_ending(pattern: str) -> str | None:
    """The suffix of a path that the pattern requires, where it requires nothing else."""
    found = _ANY_NAME.fullmatch(pattern)
    return found[1] if found else None


class _Braces:
    """A pair of braces that is still open: its parts so far, each in all its alternatives."""

    def __init__(self) -> None:
        self.parts = [[""]]

    def append(self, texts: list[str]) -> None:
        """Appends each of the texts to each alternative of the last part."""
        self.parts[-1] = _combine(self.parts[-1], texts)

    def list_alternatives(self) -> list[str]:
        return _check_limits([text for part in self.parts for text in part])

    def list_as_literal(self) -> list[str]:
        """The alternatives where the brace is never closed: it then stands for itself."""
        texts = ["{"]
        for index, part in enumerate(self.parts):
            texts = _combine(texts, [f",{text}" for text in part] if index else part)
        return texts


def expand(pattern: str) -> list[str]:
    """Expands all `{…}` into alternatives, in one pass."""
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
            open_ones[-1].append(innermost.list_alternatives())
        else:
            innermost.append([piece])
    while len(open_ones) > 1:
        unclosed = open_ones.pop().list_as_literal()
        open_ones[-1].append(unclosed)
    return outermost.list_alternatives()


def _combine(first: list[str], second: list[str]) -> list[str]:
    if len(first) * len(second) > _MAX_ALTERNATIVES:
        raise BadPattern(f"The pattern has more than {_MAX_ALTERNATIVES} alternatives.")
    return _check_limits([before + after for before in first for after in second])


def _check_limits(alternatives: list[str]) -> list[str]:
    if len(alternatives) > _MAX_ALTERNATIVES:
        raise BadPattern(f"The pattern has more than {_MAX_ALTERNATIVES} alternatives.")
    if sum(map(len, alternatives)) > _MAX_EXPANDED:
        raise BadPattern(f"The alternatives of the pattern have more than {_MAX_EXPANDED} characters.")
    return alternatives


def get_literal_prefix(pattern: str) -> str:
    """The leading folders of the pattern that have no wildcard."""
    components = pattern.split("/")[:-1]
    taken: list[str] = []
    for component in components:
        if _is_wild(component) or component in {"", ".", ".."}:
            break
        taken.append(component)
    return "/".join(taken)


def get_last_component(pattern: str) -> str:
    return pattern.rsplit("/", 1)[-1]


def _is_wild(component: str) -> bool:
    return bool(set(component) & set("*?[{\\"))


def list_literal_names(pattern: str) -> frozenset[str]:
    """The components without a wildcard, in all alternatives: only those can name files that are ignored otherwise."""
    components = (component for each in expand(pattern) for component in each.split("/"))
    return frozenset(component for component in components if component not in {"", "."} and not _is_wild(component))


def _build_expression(pattern: str, *, anywhere: bool) -> str:
    components = [component for component in pattern.removeprefix("./").split("/") if component]
    if sum(component == "**" for component in components) > _MAX_DOUBLE_STARS:
        raise BadPattern(f"The pattern has more than {_MAX_DOUBLE_STARS} times `**`.")
    if anywhere and components != ["**"]:
        components.insert(0, "**")
    runs: list[list[str]] = [[]]
    for component in components:
        if component != "**":
            runs[-1].append(_translate_component(component))
        elif runs[-1] or len(runs) == 1:
            runs.append([])
    return _join_runs(runs)


def _join_runs(runs: list[list[str]]) -> str:
    """Joins runs of components with `**` between them: as with `*`, each but the last takes the first match."""
    if len(runs) == 1:
        return "/".join(runs[0])
    first, *middle, last = runs
    folders = ["".join(f"{component}/" for component in run) for run in middle]
    found = "".join(f"(?>(?:[^/]+/)*?{each})" for each in folders)
    return "".join(f"{component}/" for component in first) + found + (f"(?:[^/]+/)*{'/'.join(last)}" if last else ".+")


def _translate_component(component: str) -> str:
    """Each `*` but the last takes the first match and never backtracks: enough, and in linear time."""
    pieces = [""]
    index = 0
    while index < len(component):
        if component[index] == "*":
            index += 1
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
            continue
        text, index = _translate_character(component, index)
        pieces[-1] += text
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1])
    return f"{pieces[0]}{middle}[^/]*{pieces[-1]}"


def _translate_character(component: str, index: int) -> tuple[str, int]:
    character = component[index]
    if character == "?":
        return "[^/]", index + 1
    if character == "\\" and index + 1 < len(component):
        return re.escape(component[index + 1]), index + 2
    if character == "[":
        end = component.find("]", index + 2 + (component[index + 1 : index + 2] in {"!", "^"}))
        if end > 0:
            return _translate_class(component[index + 1 : end]), end + 1
    return re.escape(character), index + 1


def _translate_class(inside: str) -> str:
    negated = inside[0] in "!^"
    body = inside[1:] if negated else inside
    escaped = re.sub(r"([\\\[\]&~|^])", r"\\\1", body)
    try:
        re.compile(f"[{escaped}]")
    except re.error:
        raise BadPattern(f"[{inside[:100]}] is no set of characters.") from None
    # Never a slash: a set stands for one character of a name.
    return f"(?!/)[{'^' if negated else ''}{escaped}]"
