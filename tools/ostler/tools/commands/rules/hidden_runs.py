"""Finds what a command may run though no word of it is a command's name: what a rule that denies cannot see through.

Either it may run anything, for a reason; or names of programs stand where they may be run, and not as data.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Final
from weakref import WeakKeyDictionary

from ostler.tools.commands.inner.shell_lines import SHELLS, names_descriptor, parse_line
from ostler.tools.commands.inner.wrapper_table import find_wrapper, load_toml
from ostler.tools.commands.safety.program_table import load_programs
from ostler.tools.commands.safety.wrappers import OpenedPart, is_fully_resolved, open_all, open_part
from ostler.tools.commands.syntax.parsed import ParsedCommand, SimpleCommand, make_literal_word
from ostler.tools.commands.syntax.words import Word

_PIECES: Final = re.compile(r"[\w.+~/@%-]+")
_QUOTING: Final = str.maketrans("", "", "'\"\\")
_RUNS: Final = re.compile(r"\$\(|`|\\[x0uU]")
"""A substitution, or a sign that `printf` makes of its number."""
_EVALUATED: Final = re.compile(r"\w\[[^\]]*?(?:\$\(|`)")
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_%]*)\+?=(.*)", re.DOTALL)
_PLAIN_VALUE: Final = re.compile(r"[\w=.,+:>#@% -]*")
_PLAIN_ALLOWED: Final = frozenset({
    "PS0", "PS1", "PS2", "PS3", "PS4", "ENV", "LESS", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
})  # fmt: skip
"""Variables that decide what runs only by a value that is no plain word."""
_EVALUATING: Final = frozenset({
    "[[", "test", "[", "let", "printf", "read", "unset", "declare", "typeset", "local", "export", "readonly",
    "mapfile", "readarray", "wait", "getopts",
})  # fmt: skip
_SETTING: Final = frozenset(
    {"printf", "read", "declare", "typeset", "local", "export", "readonly", "mapfile", "readarray"}
)
_ARITHMETIC: Final = ("((", "$[", "${", "[[")
_MAX_GLOBS: Final = 50
_hidden_cache: Final[WeakKeyDictionary[ParsedCommand, "HiddenRuns"]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class HiddenRuns:
    """What cannot be seen of the programs that a command runs."""

    reason: str | None
    """Why it may run anything; None: it runs no more than what is found here and in its parts."""
    names: frozenset[str | None]
    """The words that may be names of programs."""
    _groups: tuple[frozenset[str], ...]
    """The same for each command."""
    _globs: tuple[str, ...]

    def may_run(self, words: Sequence[str]) -> bool:
        """Whether the words of a rule stand together where they may be run; `*` in a word is not looked for."""
        wanted = {word for word in words if "*" not in word}
        if wanted and any(wanted <= group for group in self._groups):
            return True
        return bool(words) and any(fnmatchcase(words[0], pattern) for pattern in self._globs)

    @property
    def has_globs(self) -> bool:
        return bool(self._globs)


@dataclass(frozen=True, slots=True)
class _Tables:
    data: frozenset[str]
    writers: frozenset[str]
    commands: frozenset[str]
    hidden: frozenset[str]
    hidden_beginnings: tuple[str, ...]


@cache
def _load_tables() -> _Tables:
    found = load_toml("inner_programs.toml")
    hidden = found["variables"]["hidden"]
    return _Tables(
        data=frozenset((*found["data"], *load_programs())),
        writers=frozenset(found["writers"]),
        commands=frozenset(found["variables"]["commands"]),
        hidden=frozenset(hidden),
        hidden_beginnings=tuple(name for name in hidden if name.endswith("_")),
    )


def find_hidden_runs(parsed: ParsedCommand) -> HiddenRuns:
    """Cached: a decision needs it for deny and for ask rules."""
    found = _hidden_cache.get(parsed)
    if found is None:
        found = _hidden_cache[parsed] = _examine(parsed)
    return found


def explain_hidden_runs(parsed: ParsedCommand) -> str | None:
    """Why a command may run anything; None where it runs only what can be seen."""
    return find_hidden_runs(parsed).reason


def _examine(parsed: ParsedCommand) -> HiddenRuns:
    if not is_fully_resolved(parsed):
        return HiddenRuns(parsed.problem or "a program is known only when it runs", frozenset(), (), ())
    examination = _Examination()
    opened = open_all(parsed)
    for found in opened:
        examination.examine(found)
    reason = examination.reason or _find_evaluation([found.part for found in opened]) or _find_written_script(opened)
    groups = [*examination.groups, *(examination.printed if examination.reads_pipe else ())]
    if examination.takes_unknown and examination.passed:
        passed = frozenset[str]().union(*examination.passed)
        groups = [group | passed for group in groups]
    names: set[str | None] = set()
    names.update(*groups)
    if not names.isdisjoint(SHELLS):
        reason = reason or "a shell may be started by another program"
    if len(examination.globs) > _MAX_GLOBS:
        reason = reason or "its words are patterns"
    return HiddenRuns(reason, frozenset(names), tuple(groups), tuple(examination.globs))


class _Examination:
    """One pass over all that runs in a command."""

    __slots__ = ("globs", "groups", "passed", "printed", "reads_pipe", "reason", "takes_unknown")

    def __init__(self) -> None:
        self.reason: str | None = None
        self.groups: list[frozenset[str]] = []
        self.passed: list[frozenset[str]] = []
        """Names in values that become words of something else."""
        self.printed: list[frozenset[str]] = []
        """Names in words that are data, and that another program may read."""
        self.globs: list[str] = []
        self.takes_unknown = self.reads_pipe = False

    def examine(self, found: OpenedPart) -> None:
        part = found.part
        if "@P}" in part.text.replace("\\\n", ""):
            self._report("a value is expanded as a prompt")
        self._examine_assignments(part)
        if not part.tokens or part.words[0] is None:
            return
        if names_descriptor(_get_source_path(part)):
            self._report("a program is a descriptor")
        if part.words[0] == "-":
            self._report("a program is read")
        if part.words[0].startswith("!") and len(part.words[0]) > 1:
            self._report("a program comes from the history")
        words = self._select_words(found)
        if found.opened is not None:
            self._report(found.opened.hidden)
        self._examine_words(part, words)
        self._examine_input(found)

    def _examine_input(self, found: OpenedPart) -> None:
        """What a program that is not known reads, it may run: texts on its input, and what comes through a pipe."""
        part = found.part
        names = _collect_names(each.target for each in part.redirections if each.operator.startswith("<<"))
        if found.opened is None and part.words[0] in _load_tables().data:
            self.printed.append(names | _collect_names(part.tokens[1:]))
        elif found.opened is None:
            self.groups.append(names | _collect_names(part.tokens[1:]))
            self.reads_pipe |= "pipe" in part.inside
        elif names and not found.opened.commands and part.words[0] != "git":
            wrapper = find_wrapper(part)
            self.groups += [names] if wrapper is None or not wrapper[0].data else []

    def _report(self, reason: str | None) -> None:
        self.reason = self.reason or reason

    def _select_words(self, found: OpenedPart) -> Sequence[Word]:
        """The words that are not known to be data."""
        part, name = found.part, found.part.words[0]
        if name is not None and len(name.split()) > 1:
            # A whole line where a program's name should be: another program may split it.
            return part.tokens
        own: tuple[Word, ...] = ()
        if found.opened is not None:
            own = found.opened.own
        elif name not in _load_tables().data:
            own = part.tokens[1:]
        elif any(each.writes for each in part.redirections):
            # A copy of a program's file is that program.
            own = tuple(token for token in part.tokens[1:] if "/" in token.text)
        if not own and "substitution" in part.inside:
            self.passed.append(_collect_names(token for token in part.tokens[1:] if token.kind == "literal"))
        return own

    def _examine_words(self, part: SimpleCommand, words: Sequence[Word]) -> None:
        if not words:
            return
        names = set[str]()
        for word in words:
            if word.kind == "literal" and ("$(" in word.text or "`" in word.text):
                self._report(f"{part.tokens[0].text} is given a text with a substitution")
            if "/fd/" in word.text or "/dev/stdin" in word.text:
                self._report(f"{part.tokens[0].text} is given a descriptor")
            if word.kind == "unknown" and word.source:
                self.takes_unknown = True
                if "$'" in word.source:
                    self._report("a word is written in escapes")
            if word.kind == "glob":
                self.globs.append(posixpath.basename(word.text))
        names |= _collect_names(words)
        self.groups.append(frozenset(names))
        for word in words:
            if word.kind == "literal" and "=" in word.text and (assigned := _ASSIGNED.fullmatch(word.text)):
                self._examine_variable(part, assigned[1], assigned[2])

    def _examine_assignments(self, part: SimpleCommand) -> None:
        for name, value in part.assignments:
            self._examine_variable(part, name, value)
            if value:
                names = _collect_names([make_literal_word(value)])
                self.passed.append(names)
                if part.tokens:
                    self.groups.append(names)

    def _examine_variable(self, part: SimpleCommand, name: str, value: str | None) -> None:
        tables = _load_tables()
        if value is not None and ("$(" in value or "`" in value):
            self._report(f"the value of {name} is a substitution")
        if name in tables.hidden or name.startswith(tables.hidden_beginnings):
            plain = value is not None and name in _PLAIN_ALLOWED and _PLAIN_VALUE.fullmatch(value)
            self._report(None if plain or value == "" else f"{name} decides what runs")
        elif name in tables.commands:
            if value is None:
                self._report(f"{name} decides what runs")
            elif value:
                # What runs as somebody's pager or editor is a command like others.
                for inner in parse_line(part, make_literal_word(value)):
                    # Whoever runs it adds a file.
                    for each in open_part(replace(inner, tokens=(*inner.tokens, make_literal_word("file")))):
                        known = bool(each.part.words) and each.part.words[0] is not None
                        self._report(None if known else f"{name} decides what runs")
                        # The command for ssh is added, too.
                        if each.opened is not None and each.part.words[0] != "ssh":
                            self._report(each.opened.hidden)
                        self.groups.append(_collect_names(each.part.tokens))


def _collect_names(words: Iterable[Word]) -> frozenset[str]:
    names: set[str] = set()
    for word in words:
        names |= _split_names(word.text if word.kind in {"literal", "home"} else word.source)
    return frozenset(names)


@lru_cache(maxsize=4096)
def _split_names(text: str) -> frozenset[str]:
    """What may be a program's name in a word: between blanks and signs, without a path, after an option's letter."""
    names: set[str] = set()
    for piece in _PIECES.findall(text.translate(_QUOTING)):
        name = posixpath.basename(piece)
        names.add(name)
        if piece[:1] == "-" and piece[1:2] != "-":
            names.add(posixpath.basename(piece[2:]))
        elif name.startswith("git-"):
            names.update(("git", name.removeprefix("git-")))
    return frozenset(names)


def _get_source_path(part: SimpleCommand) -> str:
    return part.tokens[0].source if "/" in part.tokens[0].source else ""


def _find_evaluation(parts: Sequence[SimpleCommand]) -> str | None:
    """Arithmetic and subscripts run substitutions in literal text, as in `x='a[$(id)]'; ((x))`."""
    reason = "a text is evaluated"
    names = {part.words[0] for part in parts if part.words}
    if names.isdisjoint(_EVALUATING) and not any(mark in part.text for part in parts for mark in _ARITHMETIC):
        return None
    for part in parts:
        sets = bool(part.words) and part.words[0] in _SETTING
        texts = [(token.text, token.source) for token in part.tokens if token.kind in {"literal", "unknown"}]
        texts += [(each.target.text, "") for each in part.redirections if each.operator.startswith("<<")]
        for text, source in texts:
            runs = _RUNS.search(text) is not None
            if runs and ("[" in text or (sets and not text.startswith("%"))):
                return reason
            if "[" in source and _EVALUATED.search(source.removeprefix("[[")) and "'" in source:
                return reason
        if sets and any(_is_hidden_name(word) for word in part.words[1:]):
            return "a variable that decides what runs is set"
    return None


def _is_hidden_name(word: str | None) -> bool:
    return word is not None and word.partition("[")[0] in _load_tables().hidden


def _find_written_script(opened: Sequence[OpenedPart]) -> str | None:
    """A file that the line itself writes, and then runs."""
    written = {
        posixpath.basename(each.target.text) for found in opened for each in found.part.redirections if each.writes
    }
    run: set[str] = set()
    for found in opened:
        part = found.part
        if not part.tokens:
            continue
        name = part.words[0]
        if name in _load_tables().writers:
            written |= {posixpath.basename(token.text) for token in part.tokens[1:] if token.text}
            written |= {token.text.rpartition("=")[2] for token in part.tokens[1:] if "=" in token.text}
        if "/" in part.tokens[0].source:
            run.add(posixpath.basename(part.tokens[0].text))
        run |= set(_list_scripts(found))
    return "it runs a file that it writes" if run & (written - {""}) else None


def _list_scripts(found: OpenedPart) -> Iterator[str]:
    if found.opened is None or not found.opened.own:
        return
    wrapper = find_wrapper(found.part)
    if found.part.words[0] in SHELLS or (wrapper is not None and wrapper[0].script):
        yield posixpath.basename(found.opened.own[0].text)
