"""Finds command substitutions in the source text that the syntax tree does not show."""

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from ostler.protocol.patterns import compile_later
from ostler.tools.commands.syntax.tree import find_nodes

if TYPE_CHECKING:
    from tree_sitter import Node

_NESTED: Final = frozenset({"command_substitution", "process_substitution", "arithmetic_expansion"})
_QUOTES: Final = frozenset(b"\\'\"")
_STOPS: Final = compile_later(rb"[\\'\"`]|\$\(")
_STOPS_IN_TEXT: Final = compile_later(rb"[\\`]|\$\(")


def find_hidden_substitution(node: "Node", data: bytes, beside: frozenset[str]) -> int | None:
    """The byte of the first hidden substitution in a node; nodes of the kinds `beside` are checked apart."""
    shown = {found.start_byte: found.end_byte for found in find_nodes(node, _NESTED | beside)}
    found = _find_hidden(data, node.start_byte, find_own_end(node), shown, quotes=True)
    return found if found is not None else _find_hidden_in_heredoc(node, data)


def find_own_end(node: "Node") -> int:
    """Where a redirection's own text ends: the body of a heredoc, and what comes before the body, is not part of it."""
    if node.type != "heredoc_redirect":
        return node.end_byte
    return next((child.end_byte for child in node.children if child.type == "heredoc_start"), node.end_byte)


def _find_hidden_in_heredoc(node: "Node", data: bytes) -> int | None:
    start = next((child for child in node.children if child.type == "heredoc_start"), None)
    if start is None or _QUOTES & set(data[start.start_byte : start.end_byte]):
        return None
    for body in (child for child in node.children if child.type == "heredoc_body"):
        shown = {found.start_byte: found.end_byte for found in find_nodes(body, _NESTED)}
        # The tree leaves blanks at the beginning of the body out.
        begin = data.rfind(b"\n", 0, body.start_byte) + 1
        if (found := _find_hidden(data, begin, body.end_byte, shown, quotes=False)) is not None:
            return found
    return None


def _find_hidden(data: bytes, place: int, end: int, shown: dict[int, int], *, quotes: bool) -> int | None:
    """The first substitution outside of those shown. `quotes`: text in single quotes is skipped."""
    stops = _STOPS if quotes else _STOPS_IN_TEXT
    starts = sorted(shown)
    double = False
    # One byte more than the end: the second character of `$(` may be there.
    stop = stops.search(data, place, end + 1)
    while place < end:
        # Searched anew only behind the last one: from each of many substitutions the next sign may be far away.
        if stop is not None and stop.start() < place:
            stop = stops.search(data, place, end + 1)
        here = stop.start() if stop is not None else end
        following = bisect_left(starts, place)
        if following < len(starts) and starts[following] <= here:
            place = max(shown[starts[following]], starts[following] + 1)
            continue
        if stop is None or here >= end:
            return None
        sign = stop.group()
        if sign == b"\\":
            here += 1
        elif sign == b"'" and not double:
            here = data.find(b"'", here + 1, end)
            if here < 0:
                return None
        elif sign == b'"':
            double = not double
        elif sign in {b"`", b"$("}:
            return here
        place = here + 1
    return None
