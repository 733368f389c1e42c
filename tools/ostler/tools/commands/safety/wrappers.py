"""What runs inside what: a command inside `sudo`, `xargs`, `sh -c`, `find -exec` and their like."""

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final
from weakref import WeakKeyDictionary

from ostler.tools.commands.safety.program_table import data
from ostler.tools.commands.syntax.parsed import Part, Reading, unknown_word
from ostler.tools.commands.syntax.parser import read_command
from ostler.tools.commands.syntax.strict_parser import ASSIGNMENT
from ostler.tools.commands.syntax.words import Word

_REPLACING: Final = re.compile(r"-[^-IiJ]*[IiJ](.*)|--replace=?(.*)", re.DOTALL)
_MAX_DEPTH: Final = 8
_MAX_INSIDE: Final = 20_000
"""Parts found in one part; above it is unknown what else there is."""
_MAX_REMEMBERED: Final = 1_000
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
_known: Final[WeakKeyDictionary[Reading, tuple[Part, ...]]] = WeakKeyDictionary()
_EVALUATING: Final = frozenset({
    "[[", "test", "[", "let", "printf", "read", "unset", "declare", "typeset", "local", "export", "readonly",
    "mapfile", "readarray", "wait", "getopts",
})  # fmt: skip


def filled_in(parts: Sequence[Part], marks: Iterable[str]) -> list[Part]:
    """The parts as they are written, and as they are where a word with a mark in it is another one at each run."""
    found = list(parts)
    for part in parts:
        words = tuple(
            unknown_word(word.source) if any(mark in word.text for mark in marks) else word for word in part.tokens
        )
        found += [replace(part, tokens=words)] if words != part.tokens else []
    return found


def marks(part: Part) -> list[str]:
    """What xargs puts its input in place of. One too many only makes a word unknown."""
    found = {"{}"}
    for word, following in zip(part.tokens, (*part.tokens[1:], None), strict=True):
        if (spelled := _REPLACING.fullmatch(word.text)) is None:
            continue
        value = spelled[1] or spelled[2]
        if not value and following is not None:
            # Where only the run decides the mark, any word may have it.
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
    """Its words are joined to a line that a shell reads."""
    appends: bool = False
    """It adds words of its own behind the command."""
    first_is_text: bool = False
    alias: bool = False


@cache
def wrappers() -> dict[str, Wrapper]:
    """The wrappers that are known, by name."""
    return {name: Wrapper(**_sets(entry)) for name, entry in data("wrappers.toml").items()}


def _sets(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: frozenset(value) if isinstance(value, list) else value for key, value in entry.items()}


def unwrapped(part: Part) -> tuple[Part, ...]:
    """The part and everything that runs inside it, each with its program's bare name and without git's global options.

    A part whose first word is None stands for something that only the run decides.
    """
    found: list[Part] = []
    waiting = [(part, 0)]
    while waiting:
        here, depth = waiting.pop()
        if depth > _MAX_DEPTH or len(found) > _MAX_INSIDE:
            found.append(_undecided(here))
            break
        named = _with_bare_name(here)
        found.append(named)
        if named.tokens and named.tokens[0].literal == "git":
            found.extend(_past_git_options(named))
        waiting.extend((inner, depth + 1) for inner in _inside(named))
    return tuple(found)


def all_inside(reading: Reading) -> tuple[Part, ...]:
    """All that runs in a command: its parts, and what runs inside them. Each decision asks for it several times."""
    found = _known.get(reading)
    if found is None:
        found = tuple(inner for part in reading.parts for inner in unwrapped(part))
        if len(found) <= _MAX_REMEMBERED:
            _known[reading] = found
    return found


def programs_in(reading: Reading) -> frozenset[str | None]:
    """The programs that are run; None among them: one is not known."""
    return frozenset(part.words[0] for part in all_inside(reading) if part.tokens)


def all_resolved(reading: Reading) -> bool:
    """Whether it is known of every command in it, wrapped ones too, which program it is."""
    if reading.problem is not None:
        return False
    if _evaluates_hidden_text(reading):
        return False
    return not any(is_undecided(inner) for inner in all_inside(reading))


def may_run_others(reading: Reading) -> bool:
    """Whether one of its parts is a program that runs another, whatever its arguments are."""
    names = {part.words[0] for part in reading.parts if part.tokens}
    return not names.isdisjoint(SHELLS | _FINDERS) or any(name in wrappers() for name in names)


def is_undecided(part: Part) -> bool:
    """Whether its program is not known. Arithmetic runs none."""
    if not part.tokens or part.tokens[0].kind == "literal":
        return False
    return not part.tokens[0].source.startswith("((")


def _evaluates_hidden_text(reading: Reading) -> bool:
    """Arithmetic and subscripts run substitutions that stand in plain text, as in `x='a[$(id)]'; ((x))`."""
    names = {part.tokens[0].literal for part in reading.parts if part.tokens}
    if "let" not in names and "((" not in reading.command and "$[" not in reading.command and not names & _EVALUATING:
        return False
    texts = [token.text for part in reading.parts for token in part.tokens if token.kind == "literal"]
    texts += [value for part in reading.parts for _, value in part.assignments if value]
    return any("[" in text and ("$(" in text or "`" in text) for text in texts)


def _with_bare_name(part: Part) -> Part:
    if not part.tokens or part.tokens[0].kind not in {"literal", "home"}:
        return part
    first = part.tokens[0]
    if first.kind == "literal" and "/" not in first.text:
        return part
    name = posixpath.basename(first.text) or first.text
    return replace(part, tokens=(Word(first.source, name, "literal"), *part.tokens[1:]))


def _undecided(part: Part, source: str = "") -> Part:
    return replace(part, tokens=(unknown_word(source or part.text),), assignments=(), redirections=())


def _starting(part: Part, tokens: Sequence[Word]) -> Part:
    return replace(part, tokens=tuple(tokens))


def _inside(part: Part) -> list[Part]:
    """What a part runs, one wrapper deep."""
    name = part.tokens[0].literal if part.tokens else None
    if name is None:
        return []
    if name in SHELLS:
        return _in_shell(part)
    if name == "find":
        return filled_in(_after_options(part, _FIND_RUNS), ["{}"])
    if name in _FINDERS:
        return filled_in(_after_options(part, _FD_RUNS), ["{"])
    wrapper = wrappers().get(name)
    if wrapper is None:
        return []
    inner = _in_wrapper(part, wrapper)
    return filled_in(inner, marks(part)) if wrapper.appends and not wrapper.joins else inner


def _in_shell(part: Part) -> list[Part]:
    """`-c TEXT`, or what comes in through a heredoc; a script by its path is a program like any other."""
    rest = list(part.tokens[1:])
    while rest:
        token = rest.pop(0)
        text = token.literal
        if text is None:
            return [_undecided(part, token.source)]
        if text in _SHELL_VALUES:
            rest = rest[1:]
        elif text[:1] in "-+" and len(text) > 1 and text != "--" and not text.startswith("--"):
            if "c" in text[1:] and text[0] == "-":
                return _lines(part, _first_operand(rest))
            if "s" in text[1:]:
                break
        elif text in {"-", "--"} or not text.startswith("--"):
            operand = rest[0] if text in {"-", "--"} and rest else None if text in {"-", "--"} else token
            if operand is not None:
                return [_undecided(part, operand.source)] if operand.literal is None else []
    return _from_input(part)


def _first_operand(rest: Sequence[Word]) -> Word | None:
    """The text after `-c`: further options may stand between."""
    waiting = list(rest)
    while waiting:
        token = waiting.pop(0)
        if token.literal in _SHELL_VALUES:
            waiting = waiting[1:]
        elif token.literal is None or token.literal[:1] not in "-+" or not token.literal:
            return token
    return None


def _from_input(part: Part) -> list[Part]:
    given = [found for found in part.redirections if found.operator.startswith("<")]
    if not given and "pipe" not in part.inside:
        return []
    texts = [found.target for found in given if found.operator.startswith("<<")]
    if not texts or len(texts) < len(given):
        return [_undecided(part)]
    return [inner for text in texts for inner in _lines(part, text)]


def _lines(part: Part, text: Word | None) -> list[Part]:
    """The parts of a command line that stands in a word."""
    if text is None:
        return []
    if text.literal is None:
        return [_undecided(part, text.source)]
    reading = read_command(text.literal)
    inner = [replace(found, folders=None, inside=found.inside | part.inside) for found in reading.parts]
    return [*inner, _undecided(part, text.literal)] if reading.problem and text.literal.strip() else inner


def _after_options(part: Part, options: Iterable[str]) -> list[Part]:
    """The commands behind find's `-exec` and its like, each up to its end."""
    found: list[Part] = []
    tokens = part.tokens
    for place, token in enumerate(tokens):
        text = token.literal
        if text is None:
            # Any word may be another `-exec`.
            found.append(_undecided(part, token.source)) if token.kind == "unknown" else None
        elif text in options or text.partition("=")[0] in options:
            found.append(_starting(part, _until_end(tokens[place + 1 :])))
    return found


def _until_end(tokens: Sequence[Word]) -> list[Word]:
    ends = [place for place, token in enumerate(tokens) if token.literal in {";", "+"}]
    return list(tokens[: ends[0]] if ends else tokens)


def _in_wrapper(part: Part, wrapper: Wrapper) -> list[Part]:
    rest, found, sure = list(part.tokens[1:]), list[Part](), True
    if wrapper.alias:
        values = [token for token in rest if token.literal is None or "=" in token.literal]
        return [inner for token in values for inner in _lines(part, _value_of(token))]
    found += _option_lines(part, wrapper)
    while rest:
        token = rest[0]
        text = token.literal
        if text is None:
            return [*found, _undecided(part, token.source)]
        if text == "--":
            rest = rest[1:]
            break
        if wrapper.assignments and ASSIGNMENT.match(text):
            rest = rest[1:]
            continue
        if text[:1] not in "-+" or not text:
            break
        if _line_begins(text, wrapper) is not None:
            break
        taken, known = option_length(text, wrapper)
        sure = sure and known
        rest = rest[taken:]
    if not sure:
        return [*found, *_every_beginning(part)]
    return [*found, *_command_at(part, rest, wrapper)]


def _option_lines(part: Part, wrapper: Wrapper) -> list[Part]:
    """The command lines that stand as values of options, before or behind the operands."""
    found: list[Part] = []
    for place, token in enumerate(part.tokens):
        begins = _line_begins(token.literal, wrapper) if token.literal is not None else None
        if begins is None:
            continue
        attached = token.text[begins:]
        following = part.tokens[place + 1] if place + 1 < len(part.tokens) else None
        found += _lines(part, Word(attached, attached, "literal") if attached else following)
    return found


def _line_begins(text: str, wrapper: Wrapper) -> int | None:
    """Where in an option its value begins, which is a command line; null for other options.

    It may stand behind others in one word (`su -lc`), and its long name may be cut short (`--comm=`).
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


def _command_at(part: Part, rest: list[Word], wrapper: Wrapper) -> list[Part]:
    operands, rest = rest[: wrapper.operands], rest[wrapper.operands :]
    while wrapper.assignments and rest and ASSIGNMENT.match(rest[0].source):
        rest = rest[1:]
    if any(token.literal is None for token in operands):
        return [_undecided(part)]
    if not rest:
        return []
    if wrapper.first_is_text:
        return _lines(part, rest[0])
    if wrapper.joins:
        return _joined(part, rest)
    return [_starting(part, [*rest, unknown_word("")] if wrapper.appends else rest)]


def _joined(part: Part, rest: list[Word]) -> list[Part]:
    texts = [token.literal for token in rest]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        # The words as they are, for what can be seen in them, and the rest that cannot.
        return [_starting(part, rest), _undecided(part)]
    line = " ".join(known)
    return _lines(part, Word(line, line, "literal"))


def option_length(text: str, wrapper: Wrapper) -> tuple[int, bool]:
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


def _every_beginning(part: Part) -> list[Part]:
    """With an option that is not known the command may begin anywhere behind it."""
    return [_starting(part, part.tokens[place:]) for place in range(1, min(len(part.tokens), 200))]


def _value_of(token: Word) -> Word:
    if token.literal is None:
        return token
    value = token.literal.partition("=")[2]
    return Word(value, value, "literal")


def _past_git_options(part: Part) -> list[Part]:
    """The same without git's global options, where it has any."""
    rest = list(part.tokens[1:])
    while rest:
        text = rest[0].literal
        if text is None:
            return [_undecided_git(part, rest)]
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


def _undecided_git(part: Part, rest: Sequence[Word]) -> Part:
    return replace(part, tokens=(part.tokens[0], *rest))
