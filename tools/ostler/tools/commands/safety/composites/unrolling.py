"""Unrolls the loops of a line, and lists its simple commands, each with literal words or patterns only.

The variable of a loop becomes the words of its list, one after the other: what is judged, and what runs, is the line
that comes of it. Of what a substitution gives only the form is known, so it may stand only where any such text is
harmless.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ostler.tools.commands.safety.composites.arithmetic import NotComposite
from ostler.tools.commands.safety.composites.structure import (
    Bare,
    Condition,
    Element,
    Group,
    Loop,
    Piece,
    Pipeline,
    Quoted,
    Redirect,
    Sequence,
    Simple,
    Substitution,
    Variable,
    WordPieces,
)
from ostler.tools.commands.safety.composites.substitutions import Gift, describe_gift
from ostler.tools.commands.safety.glob_expansion import expand_word
from ostler.tools.commands.syntax import working_dirs as places
from ostler.tools.commands.syntax.braces import expand_braces
from ostler.tools.commands.syntax.globs import GlobLimits, strip_glob_quotes
from ostler.tools.commands.syntax.parsed import Construct, Folders, SimpleCommand
from ostler.tools.commands.syntax.parser import parse_command
from ostler.tools.commands.syntax.words import NAMED_VARIABLES, Word, read_word
from ostler.tools.commands.syntax.working_dirs import resolve_folder

MAX_LEAVES: Final = 100
"""Simple commands of the unrolled line."""
_PIPE: Final[frozenset[Construct]] = frozenset({"pipe"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:=@%+,-]+")
"""A value that stays one word, and itself, without quotes."""
_RANGE: Final = re.compile(r"\{(\d{1,6})\.\.(\d{1,6})\}")
_MAX_RANGE: Final = 100
_ASSIGNED: Final = re.compile(
    r"(?:(?:LC_[A-Z]+|LANG)=(?:C|POSIX|(?:C|[a-z]{2}_[A-Z]{2})(?:\.(?:UTF-8|utf8))?)|TZ=[A-Za-z_]+(?:/[A-Za-z_]+){0,2}"
    r"|(?:COLUMNS|LINES)=\d{1,4}|(?:NO_COLOR|CLICOLOR)=[01])"
)
"""Variables that may be set for one command: how something is shown, and nothing else."""
_RUNS_OTHERS: Final = frozenset(
    {"xargs", "find", "timeout", "nice", "time", "command", "stdbuf", "env", "fd", "fdfind"}
)
_RUNS_FOUND: Final = re.compile(r"-(?:exec|ok)|-[xX]|--exec")


@dataclass(slots=True)
class Leaf:
    """One simple command."""

    part: SimpleCommand
    before: tuple[int, ...] | None
    """Those before it in its pipeline, by their numbers; None where one of them is more than a simple command."""
    prefix: str = ""
    """Variables that are set for it alone."""
    holes: dict[int, list[str | int]] = field(default_factory=dict)
    """Words with substitutions, by their place: their text, in which a number stands for a simple command."""
    variants: tuple[SimpleCommand, ...] = ()
    """What it is where a substitution gives nothing."""
    shown: bool = True
    """It stands in the text, and is not only there for the redirections of a group."""


@dataclass(slots=True)
class Unrolling:
    """The simple commands, and the text that holds them: a number stands for each."""

    folder: str | None
    """Where it runs; None: nothing is looked at on the disk, and a pattern stands for itself."""
    leaves: list[Leaf] = field(default_factory=list)
    limits: GlobLimits = field(default_factory=GlobLimits)

    def unroll(self, line: Sequence) -> "list[str | int]":
        """Raises NotComposite or NotReadOnly."""
        return self._unroll_sequence(line, ("",), {}, moves=True)[0]

    def _unroll_sequence(
        self, line: Sequence, here: Folders, values: Mapping[str, str], *, moves: bool
    ) -> "tuple[list[str | int], Folders]":
        """The text, and the folders that the shell may be in after it."""
        text: list[str | int] = []
        inside: Folders = here
        begins, operator = True, ""
        for number, (pipeline, operator) in enumerate(line.pipelines):
            target = _find_cd(pipeline)
            if target is not None and not (moves and begins and operator in {"&&", ";"}):
                raise NotComposite("it changes the folder in the middle")
            text += self._unroll_pipeline(pipeline, inside, values)
            if target is not None:
                inside = places.change_folders(inside, target)
            last = number == len(line.pipelines) - 1
            if operator in {"&&", "||"}:
                if operator == "||" and inside != here:
                    raise NotComposite("it changes the folder in the middle")
                begins = False
            else:
                here = inside = places.merge_folders(here, inside)
                begins = True
            text.append("" if last else f" {operator} " if operator != ";" else "; ")
        return text, here

    def _unroll_pipeline(self, pipeline: Pipeline, here: Folders, values: Mapping[str, str]) -> "list[str | int]":
        text: list[str | int] = ["! "] if pipeline.negated else []
        before: tuple[int, ...] | None = ()
        for number, element in enumerate(pipeline.elements):
            text += [" | "] if number else []
            if isinstance(element.command, Simple):
                leaf = self._add_leaf(element.command, here, values, before, piped=number > 0)
                text.append(leaf)
                before = (*before, leaf) if before is not None else None
            else:
                text += self._unroll_compound(element, here, values)
                before = None
        return text

    def _unroll_compound(self, element: Element, here: Folders, values: Mapping[str, str]) -> "list[str | int]":
        match element.command:
            case Group(kind, line):
                inner, _ = self._unroll_sequence(line, here, values, moves=kind == "(")
                text = ["( ", *inner, " )"] if kind == "(" else ["{ ", *inner, "; }"]
            case Loop() as loop:
                text = ["{ ", *self._unroll_loop(loop, here, values), "; }"]
            case Condition(branches, otherwise):
                text = []
                for number, (test, then) in enumerate(branches):
                    text += ["elif " if number else "if "]
                    text += [*self._unroll_sequence(test, here, values, moves=False)[0], "; then "]
                    text += [*self._unroll_sequence(then, here, values, moves=False)[0], "; "]
                if otherwise is not None:
                    text += ["else ", *self._unroll_sequence(otherwise, here, values, moves=False)[0], "; "]
                text.append("fi")
            case Simple():
                raise AssertionError
        for redirect in element.redirects:
            # Judged as it would be behind a command that does nothing.
            number = self._add_leaf(Simple(((Bare("true"),),), (redirect,)), here, values, None, piped=False)
            self.leaves[number].shown = False
            text.append(f" {_write_redirect(redirect, values)}")
            if redirect.operator == "<":
                raise NotComposite("what a group reads is not known")
        return text

    def _unroll_loop(self, loop: Loop, here: Folders, values: Mapping[str, str]) -> "list[str | int]":
        text: list[str | int] = []
        for value in self._list_values(loop, here, values):
            text += ["; "] if text else []
            text += self._unroll_sequence(loop.body, here, {**values, loop.name: value}, moves=False)[0]
        if not text:
            return [self._add_leaf(Simple(((Bare("true"),),), ()), here, values, None, piped=False)]
        return text

    def _list_values(self, loop: Loop, here: Folders, values: Mapping[str, str]) -> list[str]:
        found: list[str] = []
        for pieces in loop.words:
            for word in _expand_source(_write_word(pieces, values)):
                if word.kind == "literal":
                    found.append(word.text)
                elif word.kind != "glob":
                    raise NotComposite(f"{word.source} is decided when it runs")
                elif self.folder is None:
                    found.append("x")
                elif here is None or len(here) != 1:
                    raise NotComposite(f"the folder is not known in which {word.source} is looked for")
                else:
                    names = expand_word(word, resolve_folder(self.folder, here[0]), self.limits)
                    found += names or (strip_glob_quotes(word),)
        if len(found) > MAX_LEAVES:
            raise NotComposite(f"a loop has more than {MAX_LEAVES} rounds")
        return found

    def _add_leaf(
        self, command: Simple, here: Folders, values: Mapping[str, str], before: tuple[int, ...] | None, *, piped: bool
    ) -> int:
        prefix, words = _split_assignments(command.words, values)
        name = "".join(piece.text if isinstance(piece, Bare) else "\0" for piece in words[0])
        if "\0" in name:
            raise NotComposite("a program's name is not a plain word")
        runs = name in _RUNS_OTHERS and (name not in {"find", "fd", "fdfind"} or _runs_found(words, values))
        if runs and any(isinstance(piece, Variable | Substitution) for word in words for piece in word):
            raise NotComposite(f"what {name} runs is not known")
        sources, emptied = list[str](), list[str]()
        holes: dict[int, tuple[WordPieces, list[Gift | None]]] = {}
        for place, pieces in enumerate(words):
            if not any(isinstance(piece, Substitution) for piece in pieces):
                expanded = [word.source for word in _expand_source(_write_word(pieces, values))]
                sources += expanded
                emptied += expanded
                continue
            gifts = [
                describe_gift(name, words, place, piece) if isinstance(piece, Substitution) else None
                for piece in pieces
            ]
            holes[len(sources)] = pieces, gifts
            sources.append(_put_stand_ins(pieces, gifts, values))
            # What gives nothing leaves an empty word behind only where it is quoted.
            empty = _put_stand_ins(pieces, [gift and replace(gift, stand_in="") for gift in gifts], values)
            if any(gift is not None and gift.stand_in == "/dev/null" for gift in gifts):
                emptied.append(sources[-1])
            elif empty != "''" or all(getattr(piece, "quoted", True) for piece in pieces):
                emptied.append(empty)
        redirects = [_write_redirect(redirect, values) for redirect in command.redirects]
        part = _parse_leaf(sources, redirects, here, piped=piped)
        # Without its operand such a program only says so.
        says = name in {"basename", "dirname", "seq"} and len(emptied) < len(sources)
        differs = emptied != sources and not says
        variants = (_parse_leaf(emptied, redirects, here, piped=piped),) if differs else ()
        number = len(self.leaves)
        if number >= MAX_LEAVES:
            raise NotComposite(f"it has more than {MAX_LEAVES} parts when its loops are written out")
        leaf = Leaf(part, before, prefix, variants=variants)
        self.leaves.append(leaf)
        for place, (pieces, gifts) in holes.items():
            leaf.holes[place] = self._write_hole(pieces, gifts, here, values)
        return number

    def _write_hole(
        self, pieces: WordPieces, gifts: list[Gift | None], here: Folders, values: Mapping[str, str]
    ) -> "list[str | int]":
        """A word with substitutions, as it runs."""
        text: list[str | int] = []
        for piece, gift in zip(pieces, gifts, strict=True):
            if not isinstance(piece, Substitution) or gift is None:
                text.append(_write_word((piece,), values))
                continue
            inner, _ = self._unroll_sequence(piece.line, here, values, moves=False)
            opening, closing = ("<(", ")") if piece.file else ('"$(', ')"') if gift.quoted else ("$(", ")")
            text += [gift.lead, opening, *inner, closing]
        return text


def _put_stand_ins(pieces: WordPieces, gifts: list[Gift | None], values: Mapping[str, str]) -> str:
    known = (
        piece if gift is None else Quoted(f"{gift.lead}{gift.stand_in}")
        for piece, gift in zip(pieces, gifts, strict=True)
    )
    source = "".join(_write_word((piece,), values) for piece in known if piece != Quoted("")) or "''"
    if read_word(source).kind not in {"literal", "unknown"}:
        raise NotComposite("a substitution stands beside a pattern")
    return source


def _runs_found(words: tuple[WordPieces, ...], values: Mapping[str, str]) -> bool:
    return any(_RUNS_FOUND.match(_read_first(word[0], values)) for word in words[1:])


def _read_first(piece: Piece, values: Mapping[str, str]) -> str:
    match piece:
        case Bare(text) | Quoted(text):
            return text
        case Variable(name) if not values.get(name, "-").startswith("-"):
            return ""
        case _:
            return "-exec"


def _find_cd(pipeline: Pipeline) -> str | None:
    """Where it leads, where it is a `cd`; the judge of the single command knows whether it may."""
    named = [
        element.command
        for element in pipeline.elements
        if isinstance(element.command, Simple) and any(_is_folder_change(word) for word in element.command.words[:2])
    ]
    if not named:
        return None
    first = named[0]
    plain = all(isinstance(piece, Bare | Quoted) for word in first.words for piece in word)
    word = read_word(_write_word(first.words[-1], {})) if plain else None
    if len(pipeline.elements) > 1 or pipeline.negated or len(first.words) != 2 or word is None:
        raise NotComposite("it changes the folder in a way of its own")
    if word.kind != "literal" or not word.text or word.text.startswith("-") or first.redirects:
        raise NotComposite("it changes the folder in a way of its own")
    return word.text


def _is_folder_change(word: WordPieces) -> bool:
    text = "".join(piece.text for piece in word if isinstance(piece, Bare | Quoted))
    return text in {"cd", "pushd", "popd"}


def _parse_leaf(sources: list[str], redirects: list[str], here: Folders, *, piped: bool) -> SimpleCommand:
    parsed = parse_command(" ".join([*sources, *redirects]))
    if not parsed.plain or len(parsed.parts) != 1 or len(parsed.parts[0].tokens) != len(sources):
        raise NotComposite(parsed.problem or "a part of it is not plain")
    (part,) = parsed.parts
    redirections = tuple(replace(found, folders=here) for found in part.redirections)
    inside = part.inside | _PIPE if piped else part.inside
    return replace(part, folders=here, redirections=redirections, inside=inside)


def _split_assignments(words: tuple[WordPieces, ...], values: Mapping[str, str]) -> tuple[str, tuple[WordPieces, ...]]:
    """`LC_ALL=C sort x`: the variables before the program, where they decide nothing but how something is shown."""
    count = 0
    for pieces in words:
        first = pieces[0]
        if not isinstance(first, Bare) or "=" not in first.text:
            break
        if len(pieces) > 1 or not _ASSIGNED.fullmatch(first.text):
            raise NotComposite("it sets a variable")
        count += 1
    if count == len(words):
        raise NotComposite("it sets a variable")
    return "".join(f"{_write_word(word, values)} " for word in words[:count]), words[count:]


def _expand_source(source: str) -> list[Word]:
    word = read_word(source)
    if (found := _RANGE.fullmatch(source)) is not None:
        first, last = int(found[1]), int(found[2])
        if abs(first - last) >= _MAX_RANGE or found[1] != str(first) or found[2] != str(last):
            raise NotComposite("a range is too long")
        step = 1 if first <= last else -1
        return [read_word(str(number)) for number in range(first, last + step, step)]
    return expand_braces(word)


def _write_redirect(redirect: Redirect, values: Mapping[str, str]) -> str:
    if any(isinstance(piece, Substitution) for piece in redirect.target):
        raise NotComposite("where it redirects to is not known")
    return f"{redirect.fd}{redirect.operator}{_write_word(redirect.target, values)}"


def _write_word(pieces: WordPieces, values: Mapping[str, str]) -> str:
    """A word as source text. Raises NotComposite."""
    written: list[str] = []
    for piece in pieces:
        match piece:
            case Bare(text):
                written.append(text)
            case Quoted(text):
                written.append(quote(text))
            case Variable(name, quoted) if name in values:
                value = values[name]
                if not quoted and not _PLAIN.fullmatch(value):
                    raise NotComposite(f"the value of ${name} would be divided")
                written.append(quote(value))
            case Variable(name, quoted) if f"${name}" in NAMED_VARIABLES:
                written.append(f'"${name}"' if quoted else f"${name}")
            case Variable(name):
                raise NotComposite(f"${name} is decided when it runs")
            case Substitution():
                raise NotComposite("a substitution gives what is not known")
    return "".join(written)


def quote(text: str) -> str:
    """Text between quotes, so that it can stand beside other pieces of a word."""
    if _PLAIN.fullmatch(text) and "," not in text:
        return text
    return f'"{text}"' if not set(text) & set('"$`\\!') else "'" + text.replace("'", "'\"'\"'") + "'"
