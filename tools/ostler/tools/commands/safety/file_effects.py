"""Says what a simple command does to files, from its words: what it reads, writes, creates, moves, links, deletes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, Literal

from ostler.tools.commands.safety.file_programs import (
    FileArguments,
    FileProgram,
    load_file_programs,
    parse_file_arguments,
)
from ostler.tools.commands.safety.file_targets import Effect, FileAction, FileTarget, Transfer, UnknownEffect
from ostler.tools.commands.safety.program_table import NotReadOnly, load_programs
from ostler.tools.commands.safety.read_only import check_words
from ostler.tools.commands.safety.special_programs import ReadAccess
from ostler.tools.commands.safety.wrappers import load_wrappers, unwrap
from ostler.tools.commands.syntax.braces import expand_braces
from ostler.tools.commands.syntax.parsed import SimpleCommand
from ostler.tools.commands.syntax.words import Word

_READS_ALL: Final = FileProgram(reads="all")
_FIND_WRITES: Final = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"})
_FIND_BEGINS: Final = ("-", "(", "!", ",")
_TAR_PACKS: Final = ("-c", "-r", "-u", "-A", "--create", "--append", "--update", "--catenate", "--concatenate")
_TAR_LISTS: Final = ("-t", "-d", "--list", "--diff", "--compare")
_TAR_FILES: Final = ("-f", "--file")
_TAR_FOLDERS: Final = ("-C", "--directory")
_NO_FILES: Final = frozenset({
    ":", "[[", "alias", "bg", "break", "cd", "continue", "declare", "echo", "exit", "export", "false", "fg",
    "getopts", "hash", "jobs", "kill", "let", "local", "popd", "printf", "pushd", "pwd", "readonly", "return", "set",
    "shift", "shopt", "sleep", "test", "time", "times", "true", "type", "typeset", "ulimit", "umask", "unalias",
    "unset", "wait",
})  # fmt: skip
"""What touches no file but by its redirections."""


def list_effects(part: SimpleCommand) -> Iterator[Effect]:
    """What a part of a command does to files, with all that runs inside it; where it cannot be told, that."""
    part = _expand_words(part)
    yield from _list_redirected(part)
    if not part.tokens:
        return
    try:
        # By its words alone: redirections and assignments, which would refuse it, do not matter here.
        access = check_words(part)
    except NotReadOnly:
        yield from _list_unsafe_effects(part)
        return
    yield from _list_reads(part, access)


def _expand_words(part: SimpleCommand) -> SimpleCommand:
    """The part with its braces expanded: what they stand for is known, though the shell decides it."""
    if not any(token.kind == "unknown" and "{" in token.source for token in part.tokens):
        return part
    return replace(part, tokens=tuple(word for token in part.tokens for word in expand_braces(token)))


def _list_redirected(part: SimpleCommand) -> Iterator[Effect]:
    for found in part.redirections:
        if found.writes or found.reads:
            yield FileTarget(found.target, found.folders, "write" if found.writes else "read")


def _list_reads(part: SimpleCommand, access: ReadAccess) -> Iterator[Effect]:
    for word in access.files:
        yield FileTarget(word, part.folders, "read", deep=access.deep, follows=access.follows)
    if access.folder:
        yield FileTarget(None, part.folders, "read", deep=access.deep, follows=access.follows)


def _list_unsafe_effects(part: SimpleCommand) -> Iterator[Effect]:
    inside = unwrap(part)
    for place, inner in enumerate(inside):
        if place == 0 and inner.tokens and inner.words[0] == "find":
            yield from _list_find_effects(inner, inside[1:])
            return
        if place and inner.tokens:
            yield from _list_redirected(inner)
        yield from _list_program_effects(inner)


def _list_program_effects(part: SimpleCommand) -> Iterator[Effect]:
    if not part.tokens:
        return
    name = part.words[0]
    if name is None:
        yield UnknownEffect("its program is known only when it runs")
        return
    special = _SPECIAL.get(name)
    if special is not None:
        yield from special(part)
        return
    program = load_file_programs().get(name)
    if program is None:
        yield from _list_other_effects(part, name)
        return
    arguments = parse_file_arguments(program, part.tokens[1:])
    if program.transfer is not None:
        yield from _list_transfers(part, program, arguments)
    else:
        yield from _list_operand_effects(part, program, arguments)


def _list_other_effects(part: SimpleCommand, name: str) -> Iterator[Effect]:
    """Of a program that is not in the table: a read-only one with other options, a wrapper, or any."""
    if name in load_programs():
        try:
            yield from _list_reads(part, check_words(part))
        except NotReadOnly:
            yield from _list_operand_effects(part, _READS_ALL, parse_file_arguments(_READS_ALL, part.tokens[1:]))
            # `pip install` and `shuf -o` write, though their names are in the table.
            yield UnknownEffect(f"it is not known what {name} does to files")
    elif name not in load_wrappers() and name not in _NO_FILES:
        yield UnknownEffect(f"it is not known what {name} does to files")


def _list_operand_effects(part: SimpleCommand, program: FileProgram, found: FileArguments) -> Iterator[Effect]:
    operands = found.operands if found.has(program.unless) else found.operands[program.skips :]
    action: FileAction = "write" if found.has(program.in_place) else program.action
    deep = program.deep or found.has(program.deep_options)
    for place, word in enumerate(operands):
        last = place == len(operands) - 1 and len(operands) > 1
        writes = found.has(program.in_place) or program.writes == "all" or (program.writes == "last" and last)
        if writes or program.reads != "none":
            yield FileTarget(word, part.folders, action if writes else "read", deep)
        if writes:
            yield from _list_derived(part, program, found, word)
    yield from _list_option_files(part, program, found)
    changes = program.writes != "none" or bool(program.in_place)
    yield from _report_unknown(program, found, UnknownEffect("", reads=program.reads != "none", writes=changes))


def _list_derived(part: SimpleCommand, program: FileProgram, found: FileArguments, word: Word) -> Iterator[Effect]:
    """Files whose names are made of an operand's: packed ones, unpacked ones, and the backup of an edited one."""
    endings = [*program.derives, *(value.text for value in found.list_values(program.in_place))]
    if word.kind not in {"literal", "home"} or any("*" in ending for ending in endings):
        yield from (
            [UnknownEffect("the name of a file that it writes is made when it runs", writes=True)] if endings else []
        )
        return
    for ending in endings:
        names = [word.text + ending, *([word.text.removesuffix(ending)] if word.text.endswith(ending) else [])]
        yield from (FileTarget(Word(name, name, word.kind), part.folders, "create") for name in names)


def _list_option_files(part: SimpleCommand, program: FileProgram, found: FileArguments) -> Iterator[Effect]:
    for word in found.list_values(program.reads_from):
        yield FileTarget(word, part.folders, "read")
    for word in found.list_values(program.writes_to):
        yield FileTarget(word, part.folders, "write")


def _report_unknown(program: FileProgram, found: FileArguments, kind: UnknownEffect) -> Iterator[Effect]:
    named = next((name for name, _ in found.options if name in program.unknown_options), None)
    if found.unknown is not None or named is not None:
        yield replace(kind, reason=f"it is not known what {found.unknown or named} does")


def _list_transfers(part: SimpleCommand, program: FileProgram, found: FileArguments) -> Iterator[Effect]:
    assert program.transfer is not None
    yield from _list_option_files(part, program, found)
    given = found.list_values(program.folder_options)
    operands = [word for word in found.operands if not _is_remote(program, word)]
    name = part.words[0]
    if name == "install" and found.has(("-d", "--directory")):
        yield from (FileTarget(word, part.folders, "create") for word in operands)
        return
    deep = program.deep or found.has(program.deep_options)
    keeps = found.has(program.keeps_path)
    here = Word(".", ".", "literal")
    if found.unknown is not None:
        # Any operand may be the destination, and every other one its source.
        for target in [*operands, *given]:
            others = tuple(word for word in operands if word is not target)
            yield Transfer(others, target, part.folders, program.transfer, True, "either", keeps, name == "rsync")
            yield Transfer((), target, part.folders, program.transfer, True, "name")
        yield UnknownEffect(f"it is not known what {found.unknown} does", reads=True, writes=True)
        return
    form: Literal["folder", "name", "either"] = "folder"
    if given:
        sources, destination = operands, given[-1]
    elif len(operands) == 1 and program.transfer == "link":
        sources, destination = operands, here
    else:
        sources, destination, form = operands[:-1], operands[-1] if operands else here, "either"
    if found.has(program.name_options):
        form = "name"
    elif len(sources) > 1:
        form = "folder"
    if sources:
        yield Transfer(tuple(sources), destination, part.folders, program.transfer, deep, form, keeps, name == "rsync")
    if any(option.startswith("--delete") for option, _ in found.options):
        yield FileTarget(destination, part.folders, "delete", deep=True)


def _is_remote(program: FileProgram, word: Word) -> bool:
    """`host:path` of rsync and scp; what has a slash before the colon is a file."""
    return bool(program.keeps_path or "-J" in program.values) and ":" in word.text.split("/")[0]


def _list_dd_effects(part: SimpleCommand) -> Iterator[Effect]:
    for token in part.tokens[1:]:
        key, _, value = token.text.partition("=")
        if token.kind != "literal":
            yield UnknownEffect(f"{token.source} is decided when it runs", reads=True, writes=True)
        elif key in {"if", "of"}:
            yield FileTarget(Word(value, value, "literal"), part.folders, "write" if key == "of" else "read")


def _list_find_effects(part: SimpleCommand, inside: Sequence[SimpleCommand]) -> Iterator[Effect]:
    """Its roots are read with all below; what `-exec` does with `{}` it does to all of them."""
    tokens = [token for token in part.tokens[1:] if token.text not in {"-H", "-L", "-P"}]
    first = next((place for place, token in enumerate(tokens) if token.text.startswith(_FIND_BEGINS)), len(tokens))
    roots: list[Word | None] = list(tokens[:first]) or [None]
    follows = any(token.text in {"-L", "-follow"} for token in part.tokens)
    for root in roots:
        yield FileTarget(root, part.folders, "read", deep=True, follows=follows)
        if any(token.text == "-delete" for token in tokens):
            yield FileTarget(root, part.folders, "delete", deep=True)
    for token, following in pairwise(tokens):
        if token.text in _FIND_WRITES:
            yield FileTarget(following, part.folders, "write")
        elif token.text == "-files0-from":
            yield UnknownEffect("its roots are read from a file", reads=True, writes=True)
    for inner in inside:
        if any(token.kind == "literal" and "{}" in token.text for token in inner.tokens):
            yield from _list_found_effects(inner, roots)
        elif all(token.kind == "literal" for token in inner.tokens):
            yield from _list_program_effects(inner)


def _list_found_effects(part: SimpleCommand, roots: Sequence[Word | None]) -> Iterator[Effect]:
    for root in roots:
        stands_for = root or Word(".", ".", "literal")
        words = tuple(stands_for if "{}" in token.text else token for token in part.tokens)
        try:
            effects = list(_list_reads(part, check_words(replace(part, tokens=words))))
        except NotReadOnly:
            effects = list(_list_program_effects(replace(part, tokens=words)))
        for effect in effects:
            match effect:
                case FileTarget():
                    yield replace(effect, deep=True) if effect.word is stands_for else effect
                case Transfer():
                    yield replace(effect, deep=True)
                    yield UnknownEffect("which files it moves is known only when it runs", reads=True, writes=True)
                case UnknownEffect():
                    yield effect


def _list_xargs_effects(part: SimpleCommand) -> Iterator[Effect]:
    """The file that it takes its words from; what it runs with them is a command of its own."""
    program = load_file_programs()["xargs"]
    yield from _list_option_files(part, program, parse_file_arguments(program, part.tokens[1:]))


def _list_tar_effects(part: SimpleCommand) -> Iterator[Effect]:
    program = load_file_programs()["tar"]
    found = parse_file_arguments(program, _dash_first_letters(program, part.tokens[1:]))
    packs = found.has(_TAR_PACKS)
    for word in found.list_values(_TAR_FILES):
        yield FileTarget(word, part.folders, "write" if packs else "read")
    yield from _list_option_files(part, program, found)
    if packs:
        # Where `-C` stands among them, they are looked for there.
        moved = found.list_values(_TAR_FOLDERS)
        yield from (FileTarget(word, part.folders, "read", deep=True) for word in (*found.operands, *moved))
    elif not found.has(_TAR_LISTS):
        yield UnknownEffect("what it unpacks stands in the archive", writes=True)
    yield from _report_unknown(program, found, UnknownEffect("", reads=True, writes=True))


def _dash_first_letters(program: FileProgram, tokens: Sequence[Word]) -> list[Word]:
    """tar's old style: the first word is a bundle without its dash; the values of its letters follow in their order."""
    if not tokens or tokens[0].kind != "literal" or tokens[0].text.startswith("-") or not tokens[0].text.isalpha():
        return list(tokens)
    rest, sorted_out = list(tokens[1:]), list[Word]()
    for letter in tokens[0].text:
        sorted_out.append(Word(letter, f"-{letter}", "literal"))
        if f"-{letter}" in program.with_value and rest:
            sorted_out.append(rest.pop(0))
    return [*sorted_out, *rest]


_SPECIAL: Final[dict[str, Callable[[SimpleCommand], Iterator[Effect]]]] = {
    "dd": _list_dd_effects,
    "xargs": _list_xargs_effects,
    "parallel": _list_xargs_effects,
    "tar": _list_tar_effects,
    "bsdtar": _list_tar_effects,
}
