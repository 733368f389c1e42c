"""Walks the syntax tree and collects the simple commands in it, each with the folders that it may run in.

The tree groups operators more loosely than the shell does (`a && b >f | c` becomes a pipe whose left side is a list).
So lists, pipes and redirections are flattened first and then grouped by the shell's own precedence.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ostler.tools.commands.syntax import working_dirs as places
from ostler.tools.commands.syntax.hidden_substitutions import find_hidden_substitution, find_own_end
from ostler.tools.commands.syntax.parsed import (
    Construct,
    Folders,
    Redirection,
    SimpleCommand,
    make_literal_word,
    make_unknown_word,
)
from ostler.tools.commands.syntax.redirections import (
    continues_word,
    find_shell_change,
    read_redirection,
    sets_variable,
)
from ostler.tools.commands.syntax.tree import find_nodes
from ostler.tools.commands.syntax.words import Word, read_word, scan_word

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH: Final = 60
_SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_TRANSPARENT: Final = frozenset({"list", "pipeline", "redirected_statement", "negated_command"})
_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_OPERATORS: Final = frozenset({"&&", "||", "|", "|&", ";", "&", ";;", ";&", ";;&", "!"})
_CASE_ENDS: Final = frozenset({";;", ";&", ";;&"})
_LOOPS: Final = frozenset({"while_statement", "for_statement", "c_style_for_statement"})
_CONTROL: Final = _LOOPS | {"if_statement", "elif_clause", "else_clause", "case_statement", "case_item", "do_group"}
_SIMPLE: Final = frozenset({
    "command", "declaration_command", "unset_command", "variable_assignment", "variable_assignments",
    "test_command",
})  # fmt: skip
_STATEMENTS: Final = (
    _TRANSPARENT | _CONTROL | _SIMPLE | _REDIRECTS | {"subshell", "compound_statement", "function_definition"}
)
_BACKGROUND: Final[frozenset[Construct]] = frozenset({"background"})
_PIPE: Final[frozenset[Construct]] = frozenset({"pipe"})
_FUNCTION: Final[frozenset[Construct]] = frozenset({"function"})
_SUBSTITUTION: Final[frozenset[Construct]] = frozenset({"substitution"})
_LOOP: Final[frozenset[Construct]] = frozenset({"loop"})
_NOT_WORDS: Final = _REDIRECTS | {"variable_assignment", "comment", "file_descriptor"}


@dataclass(slots=True)
class _Statement:
    """A statement with the redirections after it; no node: only redirections."""

    node: "Node | None"
    redirects: "list[Node]" = field(default_factory=list)


@dataclass(slots=True)
class TreeWalk:
    """One pass over a tree. `problem` is the first thing that was not understood."""

    command: str
    data: bytes
    known: dict[str, Word]
    """A cache of words by their source."""
    parts: list[SimpleCommand] = field(default_factory=list)
    problem: str | None = None
    _folder_unknown: bool = False
    """A function that changes the folder was defined: after any command the folder is unknown."""

    def walk_program(self, root: "Node") -> None:
        self._walk_sequence(root.children, ("",), frozenset(), 0)

    def _decode_node(self, node: "Node") -> str:
        return self._decode_range(node.start_byte, node.end_byte)

    def _decode_range(self, start: int, end: int) -> str:
        if len(self.command) == len(self.data):
            # Where every character is one byte, the positions are the same.
            return self.command[start:end]
        return self.data[start:end].decode("utf-8", "surrogatepass")

    def _report(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _walk_sequence(
        self, nodes: "Iterable[Node]", start: Folders, inside: frozenset[Construct], depth: int
    ) -> Folders:
        """Walks statements one after the other; returns the folders that the shell may be in after them."""
        if depth > _MAX_DEPTH:
            self._report("it is nested too deeply")
            return None
        here = start
        for tokens, operator in _split(_flatten(nodes), (";", "&", *_CASE_ENDS)):
            if operator in _CASE_ENDS:
                self._report(f"{operator} stands outside of a case")
            if operator == "&":
                self._walk_and_or(tokens, here, inside | _BACKGROUND, depth)
            else:
                here = places.merge_folders(*self._walk_and_or(tokens, here, inside, depth))
            if self._folder_unknown:
                here = None
        return here

    def _walk_and_or(
        self, tokens: "list[_Statement | str]", start: Folders, inside: frozenset[Construct], depth: int
    ) -> tuple[Folders, Folders]:
        succeeded, failed, before = start, start, ""
        for pipeline, operator in _split(tokens, ("&&", "||")):
            here = succeeded if before == "&&" else failed if before == "||" else start
            good, bad = self._walk_pipeline(pipeline, here, inside, depth)
            if before == "&&":
                succeeded, failed = good, places.merge_folders(failed, bad)
            elif before == "||":
                succeeded, failed = places.merge_folders(succeeded, good), bad
            else:
                succeeded, failed = good, bad
            before = operator
        return succeeded, failed

    def _walk_pipeline(
        self, tokens: "list[_Statement | str]", start: Folders, inside: frozenset[Construct], depth: int
    ) -> tuple[Folders, Folders]:
        if len(tokens) == 1 and isinstance(tokens[0], _Statement):
            return self._walk_statement(tokens[0], start, inside, depth)
        negated = "!" in tokens
        unsigned = [found for found in tokens if found != "!"]
        elements = [items for items, _ in _split(unsigned, ("|", "|&"))]
        if len(elements) == 1:
            good, bad = self._walk_pipeline_element(elements[0], start, inside, depth)
            return (bad, good) if negated else (good, bad)
        for place, element in enumerate(elements):
            self._walk_pipeline_element(element, start, inside | _PIPE if place else inside, depth)
        return start, start

    def _walk_pipeline_element(
        self, tokens: "list[_Statement | str]", start: Folders, inside: frozenset[Construct], depth: int
    ) -> tuple[Folders, Folders]:
        items = [token for token in tokens if isinstance(token, _Statement)]
        if len(items) != 1:
            self._report("an operator has no command")
            return None, None
        return self._walk_statement(items[0], start, inside, depth)

    def _walk_statement(
        self, item: _Statement, start: Folders, inside: frozenset[Construct], depth: int
    ) -> tuple[Folders, Folders]:
        node = item.node
        if node is None or node.type in _SIMPLE:
            return self._walk_simple(item, start, inside, depth)
        first = len(self.parts)
        end = self._walk_compound(node, start, inside, depth + 1)
        if item.redirects:
            self._redirect_compound(item, first, start)
            for redirect in item.redirects:
                self._walk_substitutions(redirect, start, inside, depth)
        return end, end

    def _redirect_compound(self, item: _Statement, first: int, start: Folders) -> None:
        """A group's redirections go to its last part, opened where the group began."""
        redirections, words = self._read_redirections(item.redirects, start)
        if words:
            self._report("a word follows a group")
        if len(self.parts) == first:
            self.parts.append(SimpleCommand("", (), folders=start))
        last = self.parts[-1]
        self.parts[-1] = replace(last, redirections=(*last.redirections, *redirections))

    def _walk_compound(self, node: "Node", start: Folders, inside: frozenset[Construct], depth: int) -> Folders:
        first = node.children[0].type if node.children else ""
        if node.type == "subshell":
            self._walk_sequence(node.children[1:-1], start, inside, depth)
            return start
        if node.type == "compound_statement" and first == "{":
            return self._walk_sequence(node.children[1:-1], start, inside, depth)
        if node.type == "compound_statement":
            self.parts.append(
                SimpleCommand(
                    self._decode_node(node), (make_unknown_word(self._decode_node(node)),), folders=start, inside=inside
                )
            )
            self._walk_substitutions(node, start, inside, depth)
            return start
        if node.type == "function_definition":
            self._folder_unknown |= bool(places.MAY_CHANGE_FOLDER.search(self._decode_node(node)))
            self._walk_sequence(node.children, None, inside | _FUNCTION, depth)
            return None if self._folder_unknown else start
        return self._walk_control(node, start, inside, depth)

    def _walk_control(self, node: "Node", start: Folders, inside: frozenset[Construct], depth: int) -> Folders:
        if node.type not in _CONTROL:
            self._report(f"it holds a {node.type} where a command should be")
            return None
        here = start
        if node.type in _LOOPS:
            inside |= _LOOP
            here = None if places.MAY_CHANGE_FOLDER.search(self._decode_node(node)) else start
        group: list[Node] = []
        body = node.children
        if node.type == "case_item":
            # The `|` between patterns is no pipe.
            patterns = next((place for place, child in enumerate(body) if child.type == ")"), 0)
            for child in body[:patterns]:
                self._walk_nested(child, here, inside, depth)
            body = body[patterns:]
        for child in body:
            counts = node.type in _LOOPS and child.type == "variable_assignment"
            if child.type in _STATEMENTS | _OPERATORS and not counts and child.type not in _CASE_ENDS:
                group.append(child)
            else:
                here = places.merge_folders(here, self._walk_sequence(group, here, inside, depth))
                group = []
                self._add_control_assignment(node, child, here, inside)
                self._walk_nested(child, here, inside, depth)
        return places.merge_folders(here, self._walk_sequence(group, here, inside, depth))

    def _add_control_assignment(self, node: "Node", child: "Node", here: Folders, inside: frozenset[Construct]) -> None:
        """What a loop or a case sets itself is a part of its own: its variable, `${x:=y}` in a list, arithmetic."""
        text = self._decode_node(child)
        if child.type == "variable_name":
            self.parts.append(SimpleCommand(text, (), ((text, ""),), folders=here, inside=inside))
        elif sets_variable(text) or (node.type == "c_style_for_statement" and child.type == "(("):
            self.parts.append(SimpleCommand(text, (), (("", None),), folders=here, inside=inside))

    def _walk_simple(
        self, item: _Statement, start: Folders, inside: frozenset[Construct], depth: int
    ) -> tuple[Folders, Folders]:
        node = item.node
        among = [(child.type, child) for child in node.children] if node is not None else []
        own = [child for kind, child in among if kind in _REDIRECTS]
        redirections, more = self._read_redirections([*own, *item.redirects], start)
        tokens, assignments = self._read_words(node, among) if node is not None else ([], [])
        part = SimpleCommand(
            text=self._decode_span(item),
            tokens=(*tokens, *more),
            assignments=tuple(assignments),
            redirections=tuple(redirections),
            folders=start,
            inside=inside,
        )
        self.parts.append(part)
        for holder in ([node] if node is not None else []) + item.redirects:
            self._walk_nested(holder, start, inside, depth)
        return places.track_folder_change(part.words, start, assigns=bool(assignments))

    def _decode_span(self, item: _Statement) -> str:
        if item.node is not None and not item.redirects:
            return self._decode_node(item.node)
        nodes = [*([item.node] if item.node is not None else []), *item.redirects]
        end = max(find_own_end(node) for node in nodes)
        return self._decode_range(nodes[0].start_byte, end)

    def _read_words(
        self, node: "Node", among: "list[tuple[str, Node]]"
    ) -> "tuple[list[Word], list[tuple[str, str | None]]]":
        match node.type:
            case "test_command":
                return self._read_test_words(node), []
            case "variable_assignment":
                return [], [self._read_assignment(node)]
            case "variable_assignments":
                return [], [self._read_assignment(child) for _, child in among]
            case "command":
                assigned = [self._read_assignment(child) for kind, child in among if kind == "variable_assignment"]
                return self._read_spaced_words([child for kind, child in among if kind not in _NOT_WORDS]), assigned
            case _:
                return self._read_spaced_words([child for kind, child in among if kind not in _REDIRECTS]), []

    def _read_spaced_words(self, nodes: "list[Node]") -> list[Word]:
        spans = [node.byte_range for node in nodes]
        for (_, end), (start, _) in pairwise(spans):
            if end == start:
                self._report(f"two words touch at byte {end}")
        data, known, words = self.data, self.known, list[Word]()
        for start, end in spans:
            # The tree sometimes ends a word early, in the middle of what the shell takes as one.
            if data[end : end + 1] != b" " and continues_word(end, data):
                self._report(f"a word does not end at byte {end}")
            source = self._decode_range(start, end)
            if source[:1] == "#":
                self._report(f"a comment is taken for a word at byte {start}")
            word = known.get(source)
            if word is None:
                word = known[source] = read_word(source)
            words.append(word)
        return words

    def _read_test_words(self, node: "Node") -> list[Word]:
        """`[` is a command like others; of `[[` only the name is known."""
        text = self._decode_node(node)
        if text.startswith("[["):
            return [make_literal_word("[["), make_unknown_word(text)]
        words, place = list[Word](), 0
        while place < len(text):
            if text[place] in " \t":
                place += 1
                continue
            word, end = scan_word(text, place)
            if text[place] == "#":
                # It goes on to the end of the line, and what the tree takes for the next word is a command.
                self._report("a comment stands inside of a test")
            if end == place:
                return [make_literal_word("["), make_unknown_word(text)]
            words.append(word)
            place = end
        return words

    def _read_assignment(self, node: "Node") -> tuple[str, str | None]:
        if continues_word(node.end_byte, self.data):
            self._report(f"a value does not end at byte {node.end_byte}")
        name, _, value = self._decode_node(node).partition("=")
        if any(child.type in {"array", "subscript"} for child in node.children):
            return name.rstrip("+").partition("[")[0], None
        return name.rstrip("+"), read_word(value).literal if value else ""

    def _read_redirections(self, nodes: "Sequence[Node]", start: Folders) -> tuple[list[Redirection], list[Word]]:
        redirections: list[Redirection] = []
        words: list[Word] = []
        for node in nodes:
            if (change := find_shell_change(node, self.data)) is not None:
                self._report(change)
            found = read_redirection(node, self.data, start)
            if isinstance(found, str):
                self._report(found)
                continue
            redirections.append(found[0])
            words += self._read_spaced_words(found[1])
        return redirections, words

    def _walk_nested(self, node: "Node", start: Folders, inside: frozenset[Construct], depth: int) -> None:
        """Walks the substitutions in a node, after a search for ones that the tree does not show."""
        if node.type in _SUBSTITUTIONS:
            self._walk_substitution(node, start, inside, depth)
            return
        text = self.data[node.start_byte : node.end_byte]
        if b"(" not in text and b"`" not in text:
            return
        if (place := find_hidden_substitution(node, self.data, _select_separate_kinds(node))) is not None:
            self._report(f"a substitution at byte {place} is not shown by the tree")
        self._walk_substitutions(node, start, inside, depth)

    def _walk_substitutions(self, node: "Node", start: Folders, inside: frozenset[Construct], depth: int) -> None:
        for found in find_nodes(node, _SUBSTITUTIONS | _select_separate_kinds(node)):
            if found.type in _SUBSTITUTIONS:
                self._walk_substitution(found, start, inside, depth)

    def _walk_substitution(self, node: "Node", start: Folders, inside: frozenset[Construct], depth: int) -> None:
        self._walk_sequence(node.children[1:-1], start, inside | _SUBSTITUTION, depth + 1)


def _select_separate_kinds(node: "Node") -> frozenset[str]:
    """The kinds of nodes that are walked apart: the tree puts commands that follow a heredoc inside its redirection."""
    return _STATEMENTS - _REDIRECTS if node.type == "heredoc_redirect" else frozenset()


def _flatten(nodes: "Iterable[Node]") -> "list[_Statement | str]":
    """Statements, the operators between them, and each redirection with the statement before it."""
    tokens: list[_Statement | str] = []
    waiting = list(nodes)[::-1]
    while waiting:
        node = waiting.pop()
        kind = node.type
        if kind in _REDIRECTS:
            _attach(tokens, node)
            if kind == "heredoc_redirect":
                waiting.extend(_find_trailing_statements(node)[::-1])
        elif kind in _TRANSPARENT:
            begins = kind == "redirected_statement" and node.children[0].type in _REDIRECTS
            if begins and tokens and isinstance(tokens[-1], _Statement):
                # A command that is nothing but redirections, in a line of its own.
                tokens.append(";")
            waiting.extend(node.children[::-1])
        elif kind in _STATEMENTS:
            if tokens and isinstance(tokens[-1], _Statement):
                tokens.append(";")
            tokens.append(_Statement(node))
        elif kind in _OPERATORS:
            tokens.append(kind)
    return tokens


def _attach(tokens: "list[_Statement | str]", redirect: "Node") -> None:
    last = tokens[-1] if tokens else None
    if isinstance(last, _Statement):
        last.redirects.append(redirect)
    else:
        tokens.append(_Statement(None, [redirect]))


def _find_trailing_statements(heredoc: "Node") -> "list[Node]":
    return [child for child in heredoc.children if child.type in _OPERATORS or child.type in _STATEMENTS]


def _split(tokens: "list[_Statement | str]", operators: tuple[str, ...]) -> "list[tuple[list[_Statement | str], str]]":
    """The runs between these operators, each with the operator after it; empty runs are left out."""
    runs: list[tuple[list[_Statement | str], str]] = []
    run: list[_Statement | str] = []
    for token in tokens:
        if isinstance(token, str) and token in operators:
            runs.append((run, token))
            run = []
        else:
            run.append(token)
    runs.append((run, ""))
    return [found for found in runs if found[0] or found[1] in {"&&", "||", "|", "|&"}]
