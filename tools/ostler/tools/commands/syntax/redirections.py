"""Reads one redirection node again from the source text: operator, target, and where a heredoc really ends."""

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ostler.protocol.patterns import compile_later
from ostler.tools.commands.syntax.parsed import Folders, Redirection
from ostler.tools.commands.syntax.strict_parser import divides_after_dash
from ostler.tools.commands.syntax.words import Word, read_word

if TYPE_CHECKING:
    from tree_sitter import Node

_QUOTING: Final = compile_later(r"[\\'\"]")
_EXPANDS: Final = compile_later(r"[$`\\]")
_ASSIGNS: Final = compile_later(
    r"\$\{[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?:?=|\$\(\(.*?(?:(?<![=!<>])=(?!=)|\+\+|--)|\$\[", re.DOTALL
)
"""Expansions that set a variable, which the shell makes before the command runs: `${x:=y}`, `$((x=1))`."""
_WORD_ENDS: Final = frozenset({b"", *(bytes([byte]) for byte in b" \t\n|&;()<>`")})
_CLOSING: Final = frozenset({">&-", "<&-"})
_CLOSED_BY_BRACE: Final = frozenset({"compound_statement", "expansion"})
_EXPANDED: Final = frozenset({"heredoc_redirect", "herestring_redirect"})
_WORD_NODES: Final = frozenset({
    "word", "number", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation",
    "simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion",
    "brace_expression",
})  # fmt: skip


def read_redirection(node: "Node", data: bytes, folders: Folders) -> "tuple[Redirection, list[Node]] | str":
    """The redirection, and the words of the command that the tree put after it; or what is wrong."""
    if node.type == "heredoc_redirect":
        return _read_heredoc(node, data, folders)
    fd, operator, words = "", "", list["Node"]()
    for child in node.children:
        if child.type == "file_descriptor":
            fd = _decode_text(child, data)
        elif child.type in _WORD_NODES:
            words.append(child)
        elif not operator:
            operator = _decode_text(child, data)
        else:
            return f"a redirection holds a {child.type}"
    if operator in _CLOSING:
        closing = next(child for child in node.children if child.type in _CLOSING)
        if continues_word(closing.end_byte, data):
            return f"a redirection's target does not end at byte {closing.end_byte}"
        return Redirection(operator, fd, Word("", "", "literal"), folders), words
    if not words or not operator:
        return "a redirection has no target"
    if continues_word(words[0].end_byte, data):
        return f"a redirection's target does not end at byte {words[0].end_byte}"
    target = read_word(_decode_text(words[0], data))
    if divides_after_dash(operator, target):
        return f"the descriptor is closed before the word at byte {words[0].start_byte} ends"
    return Redirection(operator, fd, target, folders), words[1:]


def find_shell_change(node: "Node", data: bytes) -> str | None:
    """How a redirection may change the shell itself, so that later words mean something else; None where it does not.

    `{name}>f` puts the number of a descriptor into a variable; the text of a heredoc may set one by `${name:=value}`.
    """
    if _touches_descriptor(node, data):
        return f"the redirection at byte {node.start_byte} may put a descriptor into a variable"
    if node.type in _EXPANDED and sets_variable(_decode_text(node, data)):
        return f"a variable may be set in the text at byte {node.start_byte}"
    return None


def sets_variable(text: str) -> bool:
    """Whether an expansion in a text may set a variable, as `${name:=value}` and `$((name=1))` do."""
    return "$" in text and _ASSIGNS.search(text) is not None


def _touches_descriptor(node: "Node", data: bytes) -> bool:
    """Whether what stands right before it is a descriptor that the tree takes for a word."""
    end = node.start_byte
    while data.endswith(b"\\\n", 0, end):
        end -= 2
    before = data[end - 1 : end] if end else b""
    if before == b"}":
        # The end of a group, or of `${name}`, which the tree knows.
        leaf = node.prev_sibling
        while leaf is not None and leaf.child_count:
            leaf = leaf.children[-1]
        closed = leaf.parent if leaf is not None and leaf.type == "}" and leaf.end_byte == end else None
        return closed is None or closed.type not in _CLOSED_BY_BRACE
    # A number that goes on in the next line is one all the same.
    return before.isdigit() and end != node.start_byte


def continues_word(end: int, data: bytes) -> bool:
    """Whether the shell takes what follows a word as part of it."""
    following = data[end : end + 1]
    while following == b"\\" and data.startswith(b"\\\n", end):
        end += 2
        following = data[end : end + 1]
    return following not in _WORD_ENDS


def _read_heredoc(node: "Node", data: bytes, folders: Folders) -> "tuple[Redirection, list[Node]] | str":
    pieces = {child.type: child for child in node.children}
    start, body, end = (pieces.get(name) for name in ("heredoc_start", "heredoc_body", "heredoc_end"))
    if start is None or end is None:
        return "a heredoc has no end"
    if continues_word(start.end_byte, data):
        return f"the delimiter of a heredoc does not end at byte {start.end_byte}"
    if _goes_on_in_another_line(node, data):
        return f"what follows the heredoc at byte {start.start_byte} stands in another line"
    written = _decode_text(start, data)
    delimiter = read_word(written).literal
    operator = "<<-" if "<<-" in pieces else "<<"
    begin = body.start_byte if body is not None else end.start_byte
    text = data[begin : end.start_byte].decode("utf-8", "surrogatepass")
    if not delimiter or not _ends_here(data, begin, end, delimiter, stripped=operator == "<<-"):
        return "a heredoc does not end where it seems to"
    fd = _decode_text(pieces["file_descriptor"], data) if "file_descriptor" in pieces else ""
    words = [child for child in node.children if child.type in _WORD_NODES]
    literal = bool(_QUOTING.search(written)) or not _EXPANDS.search(text)
    target = Word(text, text if literal else "", "literal" if literal else "unknown")
    return Redirection(operator, fd, target, folders), words


def _goes_on_in_another_line(node: "Node", data: bytes) -> bool:
    """Whether the tree took the first line of the text for words: it skips a newline before one that is continued."""
    before = [child for child in node.children if child.type not in {"heredoc_body", "heredoc_end"}]
    gaps = (data[left.end_byte : right.start_byte] for left, right in pairwise(before))
    return any(b"\n" in gap.replace(b"\\\n", b"") for gap in gaps)


def _ends_here(data: bytes, begin: int, end: "Node", delimiter: str, *, stripped: bool) -> bool:
    """Whether the first line that is the delimiter is the one that the tree took."""
    if data[:begin].rpartition(b"\n")[2].strip(b"\t" if stripped else b""):
        return False
    # The tree leaves blanks at the beginning of the body out.
    begin = data.rfind(b"\n", 0, begin) + 1
    wanted, place = delimiter.encode("utf-8", "surrogatepass"), begin
    for line in data[begin:].split(b"\n"):
        shown = line.lstrip(b"\t") if stripped else line
        if shown == wanted:
            return place + len(line) - len(shown) == end.start_byte and end.end_byte == place + len(line)
        place += len(line) + 1
    return False


def _decode_text(node: "Node", data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass")
