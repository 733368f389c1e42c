"""The syntax tree of a command, and every reason not to believe it."""

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

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


def parse(data: bytes) -> "tuple[Tree | None, str | None]":
    """The tree, and what is wrong with it; no tree where the parser would take too long."""
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
    return tree, _distrust(tree, data)


@cache
def _parser() -> "Parser":
    # Imported here: the daemon is ready before the first command is read.
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))


def _distrust(tree: "Tree", data: bytes) -> str | None:
    """Why the tree is not to be believed: an error, an unknown node, a byte that no accepted leaf covers."""
    covered, whole_until = 0, 0
    cursor = tree.walk()
    while True:
        node = cursor.node
        assert node is not None
        kind = node.type
        if node.is_error or node.is_missing:
            return f"its syntax is not understood at byte {node.start_byte}"
        if node.is_named and kind not in _KNOWN:
            return f"it holds a {kind}, which is not known"
        if kind in _CHECKED and (problem := _misread(node, data)) is not None:
            return problem
        is_leaf = node.child_count == 0
        if node.start_byte >= whole_until and (is_leaf or kind in _WHOLE):
            if not _BETWEEN.fullmatch(data, covered, max(covered, node.start_byte)):
                return f"byte {covered} belongs to no part of it"
            if kind == "comment" and not _is_comment(data, node):
                return f"a comment is not where the shell sees one, at byte {node.start_byte}"
            covered = max(covered, node.end_byte)
            whole_until = covered if kind in _WHOLE else whole_until
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                end = _BETWEEN.fullmatch(data, covered)
                return None if end else f"byte {covered} belongs to no part of it"


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
            fine = all(
                _IN_LINE.fullmatch(data, first.end_byte, second.start_byte) for first, second in pairwise(node.children)
            )
    return None if fine else f"what looks like a {node.type} at byte {node.start_byte} is none"


def _is_comment(data: bytes, node: "Node") -> bool:
    text = data[node.start_byte : node.end_byte]
    before = data[node.start_byte - 1 : node.start_byte]
    ends = data[node.end_byte : node.end_byte + 1] in {b"", b"\n"}
    return text.startswith(b"#") and b"\n" not in text and ends and (not before or before in _BEFORE_COMMENT)


def within(node: "Node", kinds: frozenset[str]) -> "list[Node]":
    """The nodes of these kinds below, the outermost of each branch only, in order."""
    found: list[Node] = []
    waiting = list(reversed(node.children))
    while waiting:
        here = waiting.pop()
        if here.type in kinds:
            found.append(here)
        elif here.child_count:
            waiting.extend(reversed(here.children))
    return found
