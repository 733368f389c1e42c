"""Parses a command with tree-sitter, and checks whether the tree can be trusted."""

import threading
from functools import cache
from typing import TYPE_CHECKING, Final

from ostler.protocol.patterns import compile_later

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

_CHUNK: Final = 4096
_MAX_READS: Final = 600
"""Chunks that the parser may ask for: on some input it backtracks without end, and cannot be stopped otherwise."""
_MAX_OPENINGS: Final = (("<<", 250), ("${", 1500), ("`", 400), ("|", 2000))
"""Tokens of which many make the parser's time grow with the square of their number."""
_MASK: Final = bytes(range(128)) + b"_" * 128

_KNOWN_NODES: Final = frozenset({
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
_OPAQUE_NODES: Final = frozenset({
    "word", "string", "raw_string", "ansi_c_string", "translated_string", "simple_expansion", "expansion",
    "arithmetic_expansion", "brace_expression", "heredoc_body", "regex", "test_command", "extglob_pattern",
    "concatenation",
})  # fmt: skip
"""Nodes whose text is parsed again by us, so that every byte of it is accounted for there."""
_BLANKS: Final = compile_later(rb"(?:[ \t\n]|\\\n)*")
_BLANKS_IN_LINE: Final = compile_later(rb"(?:[ \t]|\\\n)*")
_ASSIGNED: Final = compile_later(rb"[A-Za-z_][A-Za-z0-9_]*(?:\[|\+?=)")
_NAME: Final = compile_later(rb"[A-Za-z_][A-Za-z0-9_]*|[0-9]+")
_DESCRIPTOR: Final = compile_later(rb"[0-9]{1,9}")
"""`{name}>f` puts the number of a descriptor into a variable, PATH for instance: that is not understood."""
_AFTER_RESERVED: Final = frozenset({b" ", b"\t", b"\n"})
_SINGLE_LINE_NODES: Final = frozenset({
    "command", "file_redirect", "herestring_redirect", "declaration_command", "unset_command", "variable_assignments",
    "redirected_statement",
})  # fmt: skip
"""Nodes that no newline may divide."""
_CHECKED_NODES: Final = _SINGLE_LINE_NODES | {"variable_assignment", "variable_name", "file_descriptor", "!", "{"}
_BEFORE_COMMENT: Final = b" \t\n;&|()"
_USUAL_GAPS: Final = frozenset({b"", b" "})
"""What nearly always separates two leaves."""


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

    tree = _get_parser().parse(read)
    if reads > _MAX_READS:
        return None, "the parser finds no way through it"
    # One root object for all: it caches the nodes below it.
    root = tree.root_node
    return root, _find_problem(root, data)


class _Parsers(threading.local):
    """A parser for each thread: it calls back for its input, so that another thread may run meanwhile, and one parser
    with two inputs crashes the process.
    """

    parser: "Parser | None" = None


_parsers: Final = _Parsers()


def _get_parser() -> "Parser":
    if _parsers.parser is None:
        # Imported here, so that the daemon starts faster: no command is parsed before.
        from tree_sitter import Parser  # noqa: PLC0415

        _parsers.parser = Parser(_load_language())
    return _parsers.parser


@cache
def _load_language() -> "Language":
    import tree_sitter_bash  # noqa: PLC0415 - as above
    from tree_sitter import Language  # noqa: PLC0415 - as above

    return Language(tree_sitter_bash.language())


def _find_problem(root: "Node", data: bytes) -> str | None:
    """Why the tree cannot be trusted: an error, an unknown node, a byte that no accepted leaf covers."""
    broken = root.has_error
    covered, whole_until = 0, 0
    waiting = [root]
    while waiting:
        node = waiting.pop()
        kind, start = node.type, node.start_byte
        if broken and (node.is_error or node.is_missing):
            return f"its syntax is not understood at byte {start}"
        if kind not in _KNOWN_NODES and node.is_named:
            return f"it holds a {kind}, which is not known"
        if kind in _CHECKED_NODES and (problem := _check_node(node, data)) is not None:
            return problem
        children = node.children if node.child_count else None
        if start >= whole_until and (children is None or kind in _OPAQUE_NODES):
            if data[covered:start] not in _USUAL_GAPS and not _BLANKS.fullmatch(data, covered, max(covered, start)):
                return f"byte {covered} belongs to no part of it"
            if kind == "comment" and not _is_comment(data, node):
                return f"a comment is not where the shell sees one, at byte {start}"
            covered = max(covered, node.end_byte)
            whole_until = covered if kind in _OPAQUE_NODES else whole_until
        if children is not None:
            waiting.extend(children[::-1])
    return None if _BLANKS.fullmatch(data, covered) else f"byte {covered} belongs to no part of it"


def _check_node(node: "Node", data: bytes) -> str | None:
    """What the grammar reads in another way than the shell."""
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
            fine = _is_on_one_line(node, data)
    return None if fine else f"what looks like a {node.type} at byte {node.start_byte} is none"


def _is_on_one_line(node: "Node", data: bytes) -> bool:
    end: int | None = None
    for child in node.children:
        start = child.start_byte
        usual = end is None or (end <= start and data[end:start] in _USUAL_GAPS)
        if not usual and _BLANKS_IN_LINE.fullmatch(data, end or 0, start) is None:
            return False
        end = child.end_byte
    return True


def _is_comment(data: bytes, node: "Node") -> bool:
    text = data[node.start_byte : node.end_byte]
    before = data[node.start_byte - 1 : node.start_byte]
    ends = data[node.end_byte : node.end_byte + 1] in {b"", b"\n"}
    return text.startswith(b"#") and b"\n" not in text and ends and (not before or before in _BEFORE_COMMENT)


def find_nodes(node: "Node", kinds: frozenset[str]) -> "list[Node]":
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
