"""The syntax tree of a command, and every reason not to believe it."""

import re
import threading
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

_CHUNK: Final = 4096
_MAX_READS: Final = 600
"""Pieces that the parser may ask for: it goes back without end on some nonsense, and cannot be stopped otherwise."""
_MAX_OPENINGS: Final = (("<<", 250), ("${", 1500), ("`", 400), ("|", 2000))
"""Openings whose number makes the parser's time grow with its square."""
_MASK: Final = bytes(range(128)) + b"_" * 128

_KNOWN: Final = frozenset({
    "program", "list", "pipeline", "command", "command_name", "redirected_statement", "file_redirect",
    "heredoc_redirect", "herestring_redirect", "heredoc_start", "heredoc_body", "heredoc_content", "heredoc_end",
    "file_descriptor", "negated_command", "subshell", "compound_statement", "if_statement", "elif_clause",
    "else_clause", "while_statement", "for_statement", "c_style_for_statement", "case_statement", "case_item",
    "do_group", "function_definition", "test_command", "declaration_command", "unset_command",
    "variable_assignment", "variable_assignments", "variable_name", "special_variable_name", "subscript", "array",
    "word", "number", "concatenation", "string", "string_content", "raw_string", "ansi_c_string",
    "translated_string", "simple_expansion", "expansion", "command_substitution", "process_substitution",
    "arithmetic_expansion", "brace_expression", "binary_expression", "unary_expression", "postfix_expression",
    "ternary_expression", "parenthesized_expression", "test_operator", "regex", "extglob_pattern", "comment",
})  # fmt: skip
_WHOLE: Final = frozenset({
    "word", "string", "raw_string", "ansi_c_string", "translated_string", "simple_expansion", "expansion",
    "arithmetic_expansion", "brace_expression", "heredoc_body", "regex", "test_command", "extglob_pattern",
    "concatenation",
})  # fmt: skip
"""Nodes whose inside is read again by us, so that every byte of it is accounted for there."""
_BETWEEN: Final = re.compile(rb"(?:[ \t\n]|\\\n)*")
_IN_LINE: Final = re.compile(rb"(?:[ \t]|\\\n)*")
_ASSIGNED: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*(?:\[|\+?=)")
_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*|[0-9]+")
_DESCRIPTOR: Final = re.compile(rb"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\}")
_AFTER_RESERVED: Final = frozenset({b" ", b"\t", b"\n"})
_IN_ONE_LINE: Final = frozenset({
    "command", "file_redirect", "herestring_redirect", "declaration_command", "unset_command", "variable_assignments",
    "redirected_statement",
})  # fmt: skip
"""Nodes that no newline may divide."""
_CHECKED: Final = _IN_ONE_LINE | {"variable_assignment", "variable_name", "file_descriptor", "!", "{"}
_BEFORE_COMMENT: Final = b" \t\n;&|()"
_USUAL: Final = frozenset({b"", b" "})
"""What stands between two leaves nearly always."""


def parse(data: bytes) -> "tuple[Node | None, str | None]":
    """The tree's root, and what is wrong with it; no tree where the parser would take too long."""
    for opening, most in _MAX_OPENINGS:
        if data.count(opening.encode()) > most:
            return None, f"it holds more than {most} times {opening}"
    # Some bytes outside ASCII crash the grammar's scanner. None of them means anything to the shell.
    masked = data.translate(_MASK)
    reads = 0

    def read(place: int, _: object) -> bytes:
        nonlocal reads
        reads += 1
        return masked[place : place + _CHUNK] if reads <= _MAX_READS else b""

    tree = _parser().parse(read)
    if reads > _MAX_READS:
        return None, "the parser finds no way through it"
    # One object for all: it keeps the nodes below that were asked for.
    root = tree.root_node
    return root, _distrust(root, data)


class _Parsers(threading.local):
    """A parser for each thread: it asks us for its input, so that another thread may come in between, and one parser
    with two inputs ends the whole process.
    """

    parser: "Parser | None" = None


_parsers: Final = _Parsers()


def _parser() -> "Parser":
    if _parsers.parser is None:
        # Imported here: the daemon is ready before the first command is read.
        from tree_sitter import Parser  # noqa: PLC0415

        _parsers.parser = Parser(_language())
    return _parsers.parser


@cache
def _language() -> "Language":
    import tree_sitter_bash  # noqa: PLC0415 - as above
    from tree_sitter import Language  # noqa: PLC0415 - as above

    return Language(tree_sitter_bash.language())


def _distrust(root: "Node", data: bytes) -> str | None:
    """Why the tree is not to be believed: an error, an unknown node, a byte that no accepted leaf covers."""
    broken = root.has_error
    covered, whole_until = 0, 0
    waiting = [root]
    while waiting:
        node = waiting.pop()
        kind, start = node.type, node.start_byte
        if broken and (node.is_error or node.is_missing):
            return f"its syntax is not understood at byte {start}"
        if kind not in _KNOWN and node.is_named:
            return f"it holds a {kind}, which is not known"
        if kind in _CHECKED and (problem := _misread(node, data)) is not None:
            return problem
        children = node.children if node.child_count else None
        if start >= whole_until and (children is None or kind in _WHOLE):
            if data[covered:start] not in _USUAL and not _BETWEEN.fullmatch(data, covered, max(covered, start)):
                return f"byte {covered} belongs to no part of it"
            if kind == "comment" and not _is_comment(data, node):
                return f"a comment is not where the shell sees one, at byte {start}"
            covered = max(covered, node.end_byte)
            whole_until = covered if kind in _WHOLE else whole_until
        if children is not None:
            waiting.extend(children[::-1])
    return None if _BETWEEN.fullmatch(data, covered) else f"byte {covered} belongs to no part of it"


def _misread(node: "Node", data: bytes) -> str | None:
    """What the grammar takes for something that the shell does not."""
    text = data[node.start_byte : node.end_byte]
    match node.type:
        case "variable_assignment":
            fine = _ASSIGNED.match(text) is not None
        case "variable_name":
            fine = _NAME.fullmatch(text) is not None
        case "file_descriptor":
            fine = _DESCRIPTOR.fullmatch(text) is not None
        case "!" | "{":
            alone = node.parent is not None and node.parent.type in {"negated_command", "compound_statement"}
            fine = not alone or data[node.end_byte : node.end_byte + 1] in _AFTER_RESERVED
        case _:
            fine = _in_one_line(node, data)
    return None if fine else f"what looks like a {node.type} at byte {node.start_byte} is none"


def _in_one_line(node: "Node", data: bytes) -> bool:
    end: int | None = None
    for child in node.children:
        start = child.start_byte
        usual = end is None or (end <= start and data[end:start] in _USUAL)
        if not usual and _IN_LINE.fullmatch(data, end or 0, start) is None:
            return False
        end = child.end_byte
    return True


def _is_comment(data: bytes, node: "Node") -> bool:
    text = data[node.start_byte : node.end_byte]
    before = data[node.start_byte - 1 : node.start_byte]
    ends = data[node.end_byte : node.end_byte + 1] in {b"", b"\n"}
    return text.startswith(b"#") and b"\n" not in text and ends and (not before or before in _BEFORE_COMMENT)


def within(node: "Node", kinds: frozenset[str]) -> "list[Node]":
    """The nodes of these kinds below, the outermost of each branch only, in order."""
    found: list[Node] = []
    waiting = node.children[::-1]
    while waiting:
        here = waiting.pop()
        if here.type in kinds:
            found.append(here)
        elif here.child_count:
            waiting.extend(here.children[::-1])
    return found
