"""Unwraps commands: finds what runs inside `sudo`, `xargs`, `sh -c`, `find -exec` and their like.

Also the placeholders, such as `{}`, that `xargs` and `find` replace in the command they run.
"""

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final
from weakref import WeakKeyDictionary

from ostler.tools.commands.safety.program_table import load_toml
from ostler.tools.commands.syntax.parsed import ParsedCommand, SimpleCommand, make_unknown_word
from ostler.tools.commands.syntax.parser import parse_command
from ostler.tools.commands.syntax.strict_parser import ASSIGNMENT
from ostler.tools.commands.syntax.words import Word
from ostler.tools.commands.syntax.working_dirs import nest_folders

_REPLACING: Final = re.compile(r"-[^-IiJ]*[IiJ](.*)|--replace=?(.*)", re.DOTALL)
_MAX_DEPTH: Final = 8
_MAX_INSIDE: Final = 20_000
"""Commands found inside one; with more, the rest counts as unknown."""
_MAX_CACHED: Final = 1_000
SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash"})
_SHELL_VALUES: Final = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_FINDERS: Final = frozenset({"find", "fd", "fdfind"})
_FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FD_RUNS: Final = frozenset({"-x", "-X", "--exec", "--exec-batch"})
_GIT_FLAGS: Final = frozenset({
    "--no-pager", "--paginate", "-p", "-P", "--bare", "--no-replace-objects", "--literal-pathspecs",
    "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs", "--no-optional-locks", "--no-lazy-fetch",
    "--no-advice", "--html-path", "--man-path", "--info-path",
})  # fmt: skip
_GIT_VALUES: Final = frozenset({
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path", "--super-prefix",
})  # fmt: skip
_unwrapped_cache: Final[WeakKeyDictionary[ParsedCommand, tuple[SimpleCommand, ...]]] = WeakKeyDictionary()
_EVALUATING: Final = frozenset({
    "[[", "test", "[", "let", "printf", "read", "unset", "declare", "typeset", "local", "export", "readonly",
    "mapfile", "readarray", "wait", "getopts",
})  # fmt: skip


def add_placeholder_variants(parts: Sequence[SimpleCommand], placeholders: Iterable[str]) -> list[SimpleCommand]:
    """The parts as written, and those with a placeholder once more, with each such word unknown."""
    found = list(parts)
    for part in parts:
        words = tuple(
            make_unknown_word(word.source) if any(mark in word.text for mark in placeholders) else word
            for word in part.tokens
        )
        found += [replace(part, tokens=words)] if words != part.tokens else []
    return found


def find_placeholders(part: SimpleCommand) -> list[str]:
    """The placeholders that xargs replaces by its input. One too many only makes a word unknown."""
    found = {"{}"}
    for word, following in zip(part.tokens, (*part.tokens[1:], None), strict=True):
        if (spelled := _REPLACING.fullmatch(word.text)) is None:
            continue
        value = spelled[1] or spelled[2]
        if not value and following is not None:
            # Where the placeholder is known only at run time, any word may contain it.
            found.add(following.literal if following.literal is not None else "")
        found.add(value or "{}")
    return sorted(found)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How a wrapper's own arguments end and the command inside begins."""

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    """Options whose value is a command line."""
    operands: int = 0
    harmless: bool = False
    numbers: bool = False
    assignments: bool = False
    joins: bool = False
    """Its words are joined to a line that a shell parses."""
    appends: bool = False
    """It appends words of its own to the command."""
    first_is_text: bool = False
    alias: bool = False


@cache
def load_wrappers() -> dict[str, Wrapper]:
    """The wrappers that are known, by name."""
    return {name: Wrapper(**_freeze_sets(entry)) for name, entry in load_toml("wrappers.toml").items()}


def _freeze_sets(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: frozenset(value) if isinstance(value, list) else value for key, value in entry.items()}


def unwrap(part: SimpleCommand) -> tuple[SimpleCommand, ...]:
    """The part and everything that runs inside it, each with its program's bare name and without git's global options.

    A part whose first word is None stands for a command that is known only at run time.
    """
    found: list[SimpleCommand] = []
    waiting = [(part, 0)]
    while waiting:
        here, depth = waiting.pop()
        if depth > _MAX_DEPTH or len(found) > _MAX_INSIDE:
            found.append(_make_undecided(here))
            break
        named = _strip_program_path(here)
        found.append(named)
        if named.tokens and named.tokens[0].literal == "git":
            found.extend(_strip_git_options(named))
        waiting.extend((inner, depth + 1) for inner in _unwrap_once(named))
    return tuple(found)


def unwrap_all(parsed: ParsedCommand) -> tuple[SimpleCommand, ...]:
    """All that runs in a command: its parts, and what runs inside them. Cached: a decision needs it several times."""
    found = _unwrapped_cache.get(parsed)
    if found is None:
        found = tuple(inner for part in parsed.parts for inner in unwrap(part))
        if len(found) <= _MAX_CACHED:
            _unwrapped_cache[parsed] = found
    return found


def list_programs(parsed: ParsedCommand) -> frozenset[str | None]:
    """The programs that are run; None among them: one is not known."""
    return frozenset(part.words[0] for part in unwrap_all(parsed) if part.tokens)


def is_fully_resolved(parsed: ParsedCommand) -> bool:
    """Whether it is known of every command in it, wrapped ones too, which program it is."""
    if parsed.problem is not None:
        return False
    if _evaluates_hidden_text(parsed):
        return False
    return not any(is_undecided(inner) for inner in unwrap_all(parsed))


def may_run_others(parsed: ParsedCommand) -> bool:
    """Whether one of its parts is a program that runs another, whatever its arguments are."""
    names = {part.words[0] for part in parsed.parts if part.tokens}
    return not names.isdisjoint(SHELLS | _FINDERS) or any(name in load_wrappers() for name in names)


def is_undecided(part: SimpleCommand) -> bool:
    """Whether its program is not known. Arithmetic runs none."""
    if not part.tokens or part.tokens[0].kind == "literal":
        return False
    return not part.tokens[0].source.startswith("((")


def _evaluates_hidden_text(parsed: ParsedCommand) -> bool:
    """Arithmetic and subscripts run substitutions in literal text, as in `x='a[$(id)]'; ((x))`."""
    names = {part.tokens[0].literal for part in parsed.parts if part.tokens}
    if "let" not in names and "((" not in parsed.command and "$[" not in parsed.command and not names & _EVALUATING:
        return False
    texts = [token.text for part in parsed.parts for token in part.tokens if token.kind == "literal"]
    texts += [value for part in parsed.parts for _, value in part.assignments if value]
    return any("[" in text and ("$(" in text or "`" in text) for text in texts)


def _strip_program_path(part: SimpleCommand) -> SimpleCommand:
    if not part.tokens or part.tokens[0].kind not in {"literal", "home"}:
        return part
    first = part.tokens[0]
    if first.kind == "literal" and "/" not in first.text:
        return part
    name = posixpath.basename(first.text) or first.text
    return replace(part, tokens=(Word(first.source, name, "literal"), *part.tokens[1:]))


def _make_undecided(part: SimpleCommand, source: str = "") -> SimpleCommand:
    return replace(part, tokens=(make_unknown_word(source or part.text),), assignments=(), redirections=())


def _replace_tokens(part: SimpleCommand, tokens: Sequence[Word]) -> SimpleCommand:
    return replace(part, tokens=tuple(tokens))


def _unwrap_once(part: SimpleCommand) -> list[SimpleCommand]:
    """What a part runs, one wrapper deep."""
    name = part.tokens[0].literal if part.tokens else None
    if name is None:
        return []
    if name in SHELLS:
        return _unwrap_shell(part)
    if name == "find":
        return add_placeholder_variants(_find_exec_commands(part, _FIND_RUNS), ["{}"])
    if name in _FINDERS:
        return add_placeholder_variants(_find_exec_commands(part, _FD_RUNS), ["{"])
    wrapper = load_wrappers().get(name)
    if wrapper is None:
        return []
    inner = _unwrap_wrapper(part, wrapper)
    return add_placeholder_variants(inner, find_placeholders(part)) if wrapper.appends and not wrapper.joins else inner


def _unwrap_shell(part: SimpleCommand) -> list[SimpleCommand]:
    """`-c TEXT`, or the text of a heredoc; a script by its path is a program like any other."""
    rest = list(part.tokens[1:])
    while rest:
        token = rest.pop(0)
        text = token.literal
        if text is None:
            return [_make_undecided(part, token.source)]
        if text in _SHELL_VALUES:
            rest = rest[1:]
        elif text[:1] in "-+" and len(text) > 1 and text != "--" and not text.startswith("--"):
            if "c" in text[1:] and text[0] == "-":
                return _parse_line(part, _find_first_operand(rest))
            if "s" in text[1:]:
                break
        elif text in {"-", "--"} or not text.startswith("--"):
            operand = rest[0] if text in {"-", "--"} and rest else None if text in {"-", "--"} else token
            if operand is not None:
                return [_make_undecided(part, operand.source)] if operand.literal is None else []
    return _unwrap_stdin(part)


def _find_first_operand(rest: Sequence[Word]) -> Word | None:
    """The text after `-c`: further options may come between."""
    waiting = list(rest)
    while waiting:
        token = waiting.pop(0)
        if token.literal in _SHELL_VALUES:
            waiting = waiting[1:]
        elif token.literal is None or token.literal[:1] not in "-+" or not token.literal:
            return token
    return None


def _unwrap_stdin(part: SimpleCommand) -> list[SimpleCommand]:
    given = [found for found in part.redirections if found.operator.startswith("<")]
    if not given and "pipe" not in part.inside:
        return []
    texts = [found.target for found in given if found.operator.startswith("<<")]
    if not texts or len(texts) < len(given):
        return [_make_undecided(part)]
    return [inner for text in texts for inner in _parse_line(part, text)]


def _parse_line(part: SimpleCommand, text: Word | None) -> list[SimpleCommand]:
    """The parts of a command line that is the text of a word."""
    if text is None:
        return []
    if text.literal is None:
        return [_make_undecided(part, text.source)]
    parsed = parse_command(text.literal)
    inner = [
        replace(found, folders=nest_folders(part.folders, found.folders), inside=found.inside | part.inside)
        for found in parsed.parts
    ]
    return [*inner, _make_undecided(part, text.literal)] if parsed.problem and text.literal.strip() else inner


def _find_exec_commands(part: SimpleCommand, options: Iterable[str]) -> list[SimpleCommand]:
    """The commands after find's `-exec` and its like, each up to its end."""
    found: list[SimpleCommand] = []
    tokens = part.tokens
    for place, token in enumerate(tokens):
        text = token.literal
        if text is None:
            # Any word may be another `-exec`.
            found.append(_make_undecided(part, token.source)) if token.kind == "unknown" else None
        elif text in options or text.partition("=")[0] in options:
            found.append(_replace_tokens(part, _take_until_end(tokens[place + 1 :])))
    return found


def _take_until_end(tokens: Sequence[Word]) -> list[Word]:
    ends = [place for place, token in enumerate(tokens) if token.literal in {";", "+"}]
    return list(tokens[: ends[0]] if ends else tokens)


def _unwrap_wrapper(part: SimpleCommand, wrapper: Wrapper) -> list[SimpleCommand]:
    rest, found, sure = list(part.tokens[1:]), list[SimpleCommand](), True
    if wrapper.alias:
        values = [token for token in rest if token.literal is None or "=" in token.literal]
        return [inner for token in values for inner in _parse_line(part, _extract_value(token))]
    found += _parse_option_lines(part, wrapper)
    while rest:
        token = rest[0]
        text = token.literal
        if text is None:
            return [*found, _make_undecided(part, token.source)]
        if text == "--":
            rest = rest[1:]
            break
        if wrapper.assignments and ASSIGNMENT.match(text):
            rest = rest[1:]
            continue
        if text[:1] not in "-+" or not text:
            break
        if _find_line_start(text, wrapper) is not None:
            break
        taken, known = count_option_words(text, wrapper)
        sure = sure and known
        rest = rest[taken:]
    if not sure:
        return [*found, *_list_possible_commands(part)]
    return [*found, *_unwrap_operands(part, rest, wrapper)]


def _parse_option_lines(part: SimpleCommand, wrapper: Wrapper) -> list[SimpleCommand]:
    """The command lines that are values of options, before or after the operands."""
    found: list[SimpleCommand] = []
    for place, token in enumerate(part.tokens):
        begins = _find_line_start(token.literal, wrapper) if token.literal is not None else None
        if begins is None:
            continue
        attached = token.text[begins:]
        following = part.tokens[place + 1] if place + 1 < len(part.tokens) else None
        found += _parse_line(part, Word(attached, attached, "literal") if attached else following)
    return found


def _find_line_start(text: str, wrapper: Wrapper) -> int | None:
    """Where in an option its value begins, which is a command line; None for other options.

    It may follow others in one word (`su -lc`), and its long name may be abbreviated (`--comm=`).
    """
    if text.startswith("--"):
        name, equals, _ = text.partition("=")
        cut = len(name) > 2 and any(each.startswith(name) for each in wrapper.texts)
        return len(name) + len(equals) if cut else None
    if text[:1] != "-":
        return None
    for place in range(1, len(text)):
        if f"-{text[place]}" in wrapper.texts:
            return place + 1
        if f"-{text[place]}" in wrapper.values:
            return None
    return None


def _unwrap_operands(part: SimpleCommand, rest: list[Word], wrapper: Wrapper) -> list[SimpleCommand]:
    operands, rest = rest[: wrapper.operands], rest[wrapper.operands :]
    while wrapper.assignments and rest and ASSIGNMENT.match(rest[0].source):
        rest = rest[1:]
    if any(token.literal is None for token in operands):
        return [_make_undecided(part)]
    if not rest:
        return []
    if wrapper.first_is_text:
        return _parse_line(part, rest[0])
    if wrapper.joins:
        return _join_and_parse(part, rest)
    return [_replace_tokens(part, [*rest, make_unknown_word("")] if wrapper.appends else rest)]


def _join_and_parse(part: SimpleCommand, rest: list[Word]) -> list[SimpleCommand]:
    texts = [token.literal for token in rest]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        # The words as they are, for the rules that match them, and one unknown command for the rest.
        return [_replace_tokens(part, rest), _make_undecided(part)]
    line = " ".join(known)
    return _parse_line(part, Word(line, line, "literal"))


def count_option_words(text: str, wrapper: Wrapper) -> tuple[int, bool]:
    """How many words an option takes, and whether that is known."""
    if text.startswith("--"):
        name, equals, _ = text.partition("=")
        if name in wrapper.values:
            return (1 if equals else 2), True
        return 1, name in wrapper.flags
    if text in wrapper.flags:
        return 1, True
    if wrapper.numbers and text[1:].lstrip("-").isdecimal():
        return 1, True
    for place in range(1, len(text)):
        if f"-{text[place]}" in wrapper.values:
            return (2 if place == len(text) - 1 else 1), True
        if f"-{text[place]}" not in wrapper.flags:
            return 1, False
    return 1, True


def _list_possible_commands(part: SimpleCommand) -> list[SimpleCommand]:
    """After an option that is not known the command may begin anywhere."""
    return [_replace_tokens(part, part.tokens[place:]) for place in range(1, min(len(part.tokens), 200))]


def _extract_value(token: Word) -> Word:
    if token.literal is None:
        return token
    value = token.literal.partition("=")[2]
    return Word(value, value, "literal")


def _strip_git_options(part: SimpleCommand) -> list[SimpleCommand]:
    """The same without git's global options, where it has any."""
    rest = list(part.tokens[1:])
    while rest:
        text = rest[0].literal
        if text is None:
            return [_make_undecided_git(part, rest)]
        if text.partition("=")[0] in _GIT_VALUES and ("=" in text or text == "--exec-path"):
            rest = rest[1:]
        elif text in _GIT_VALUES:
            rest = rest[2:]
        elif text in _GIT_FLAGS or (text.startswith("-") and len(text) > 1):
            rest = rest[1:]
        else:
            break
    if len(rest) + 1 == len(part.tokens):
        return []
    return [replace(part, tokens=(part.tokens[0], *rest))]


def _make_undecided_git(part: SimpleCommand, rest: Sequence[Word]) -> SimpleCommand:
    return replace(part, tokens=(part.tokens[0], *rest))
