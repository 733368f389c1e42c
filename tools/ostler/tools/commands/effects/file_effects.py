"""Says what a simple command does to files, from its words: what it reads, writes, creates, moves, links, deletes."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

from ostler.tools.commands.effects.file_programs import (
    FileArguments,
    FileProgram,
    load_file_programs,
    parse_file_arguments,
)
from ostler.tools.commands.effects.file_targets import (
    Effect,
    FileAction,
    FileTarget,
    MentionedText,
    Transfer,
    UnknownEffect,
)
from ostler.tools.commands.effects.git_files import list_git_effects
from ostler.tools.commands.effects.special_file_programs import (
    SPECIAL_FILES,
    list_option_files,
    list_script_effects,
    report_unknown,
)
from ostler.tools.commands.safety.program_table import NotReadOnly, load_programs
from ostler.tools.commands.safety.read_only import check_words
from ostler.tools.commands.safety.special_programs import ReadAccess
from ostler.tools.commands.safety.wrappers import SHELLS, is_undecided, load_wrappers, unwrap
from ostler.tools.commands.syntax.braces import expand_braces
from ostler.tools.commands.syntax.parsed import Folders, SimpleCommand, make_literal_word
from ostler.tools.commands.syntax.words import Word
from ostler.tools.commands.syntax.working_dirs import change_folders, merge_folders

_READS_DEEP: Final = FileProgram(reads="all", deep=True)
_MAX_RUN: Final = 20
_FIND_WRITES: Final = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"})
_FIND_OPERATORS: Final = frozenset({"-o", "-or", ",", "!", "-not", "(", ")", "-L", "-follow", None})
_FIND_BEGINS: Final = ("-", "(", "!", ",")
_LISTS_NAMES: Final = frozenset({"ls", "dir", "vdir", "tree", "du", "df", "stat", "find", "realpath", "readlink", "cd"})
"""What shows names, sizes and times, and never what stands in a file."""
_READS_FOLDERS: Final = frozenset({"diff", "diff3", "sdiff", "colordiff", "grep", "egrep", "fgrep", "zgrep"})
"""What may read the files in a folder that it is given, by whatever option, and no other program would."""
_COMPARES: Final = frozenset({"diff", "diff3", "sdiff", "colordiff"})
_KNOWN_FOLDER: Final = re.compile(r"""("?)\$(?:(PWD|HOME)|\{(PWD|HOME)\})((?:/[^\s"'$`\\*?\[\]{}]*)?)\1""")
_READS_HERE: Final = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "ls", "tree", "du"})
"""What may take the folder that it runs in where no file is named."""
_CHANGES_FOLDER: Final = {"env": ("-C", "--chdir"), "sudo": ("-D", "--chdir"), "systemd-run": ("--working-directory",)}
"""Wrappers that run a command elsewhere, and the options for that."""
_RUNS_OTHERS: Final = frozenset({"git", "fd", "fdfind"})
RUNS_LINES: Final = frozenset({"eval", "parallel", "su", "runuser", "trap", "watch", "ssh", "flock", "script"})
"""What runs a whole command line, and so perhaps several commands."""
_WRITES_OTHERWISE: Final = frozenset({"ar", "clang-format", "go", "gofmt", "history", "npm", "yq"})
"""Programs of the table whose other forms write, or run, what their words name."""
_NO_FILES: Final = frozenset({
    ":", "[", "[[", "alias", "bg", "break", "builtin", "cd", "command", "continue", "declare", "dirs", "disown", "echo",
    "exec", "exit", "export", "false", "fg", "getopts", "hash", "jobs", "kill", "let", "local", "mapfile", "popd",
    "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift", "shopt", "sleep", "test",
    "time", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
})  # fmt: skip
"""What touches no file but by its redirections."""


_MAX_CACHED: Final = 1_000
_MAX_CACHED_LENGTH: Final = 1_000


def list_effects(part: SimpleCommand) -> Sequence[Effect]:
    """What a part of a command does to files, with all that runs inside it; where it cannot be told, that.

    A decision needs it several times: for the whole line, and for each part alone.
    """
    return _list_cached(part) if len(part.text) <= _MAX_CACHED_LENGTH else tuple(_list_effects(part))


@lru_cache(maxsize=_MAX_CACHED)
def _list_cached(part: SimpleCommand) -> Sequence[Effect]:
    return tuple(_list_effects(part))


def _list_effects(part: SimpleCommand) -> Iterator[Effect]:
    if any(_expand_folder(token) is not token for token in part.tokens):
        # The line may have given them another value before.
        yield UnknownEffect("variables in it are known only when it runs", reads=True, writes=True)
    part = _expand_words(part)
    yield from _list_redirected(part)
    if not part.tokens:
        return
    if _runs_alone(part.words[0]):
        yield from _list_program_effects(part)
        return
    elsewhere: Folders = ()
    before, several = None, False
    for place, inner in enumerate(unwrap(part)):
        name = inner.words[0] if inner.tokens else None
        if place and inner.tokens:
            yield from _list_redirected(inner)
        if not _repeats(before, inner):
            moved = inner if elsewhere == () else replace(inner, folders=merge_folders(elsewhere, inner.folders))
            changed = _find_changed_folders(moved)
            elsewhere = elsewhere if changed == () else changed
            yield from _list_program_effects(_expand_words(moved))
        if name == "find" and not several:
            # What it runs was looked at with it.
            return
        before, several = inner, several or name is None or name in SHELLS or name in RUNS_LINES


def _runs_alone(name: str | None) -> bool:
    """Whether it is known to run nothing else, or what it runs is looked at with it."""
    if name is None or "/" in name:
        return False
    return name == "find" or not (name in load_wrappers() or name in SHELLS or name in _RUNS_OTHERS)


def _expand_words(part: SimpleCommand) -> SimpleCommand:
    """The part with its braces, `$PWD` and `$HOME` expanded: what they stand for is known, though the shell decides."""
    if not any(token.kind == "unknown" and ("{" in token.source or "$" in token.source) for token in part.tokens):
        return part
    words = (_expand_folder(word) for token in part.tokens for word in expand_braces(token))
    return replace(part, tokens=tuple(words))


def _expand_folder(word: Word) -> Word:
    """`$PWD/x` as `./x`, and `$HOME/x` as `~/x`."""
    found = _KNOWN_FOLDER.fullmatch(word.source) if word.kind == "unknown" else None
    if found is None:
        return word
    if (found[2] or found[3]) == "PWD":
        return Word(word.source, f".{found[4]}", "literal")
    return Word(word.source, f"~{found[4]}", "home")


def _repeats(before: SimpleCommand | None, part: SimpleCommand) -> bool:
    """Whether it is the git before it, once more without its global options; they are understood here."""
    if before is None or not before.tokens or not part.tokens or before.words[0] != "git" or part.words[0] != "git":
        return False
    rest = part.tokens[1:]
    return len(rest) < len(before.tokens) - 1 and before.tokens[len(before.tokens) - len(rest) :] == rest


def _find_changed_folders(part: SimpleCommand) -> Folders:
    """The folders that a wrapper runs its command in; empty where it changes nothing."""
    options = _CHANGES_FOLDER.get(part.words[0] or "") if part.tokens else None
    changed: Folders = ()
    for option in options or ():
        for place, token in enumerate(part.tokens):
            if token.text == option:
                following = part.tokens[place + 1] if place + 1 < len(part.tokens) else None
                changed = change_folders(part.folders, following.literal if following is not None else None)
            elif token.text.startswith(f"{option}=" if option.startswith("--") else option):
                changed = change_folders(part.folders, token.text.removeprefix(option).removeprefix("="))
    return changed


def _list_redirected(part: SimpleCommand) -> Iterator[Effect]:
    for found in part.redirections:
        if found.writes:
            yield FileTarget(found.target, found.folders, "write")
        if found.reads:
            yield FileTarget(found.target, found.folders, "read")


def _list_program_effects(part: SimpleCommand) -> Iterator[Effect]:
    if not part.tokens:
        return
    name = part.words[0]
    if name is None:
        if is_undecided(part):
            yield UnknownEffect("its program is known only when it runs", reads=True, writes=True)
            yield from _list_mentions(part)
    elif name == "find":
        yield from _list_find_effects(part)
    elif name == "git":
        yield from list_git_effects(part)
    elif name in SPECIAL_FILES:
        yield from SPECIAL_FILES[name](part)
    elif name in load_wrappers() or name in _NO_FILES:
        yield from _list_builtin_reads(part, load_file_programs().get(name))
    else:
        yield from _list_known_effects(part, name)


def _list_builtin_reads(part: SimpleCommand, program: FileProgram | None) -> Iterator[Effect]:
    """`cd` and `[`: what they look at; of a wrapper its own files, since what it runs is a part of its own."""
    if program is not None:
        yield from list_option_files(part, program, parse_file_arguments(program, part.tokens[1:]))
        yield from _list_mentions(part)
        return
    if part.words[0] in load_wrappers():
        return
    try:
        yield from _list_reads(part, check_words(part))
    except NotReadOnly:
        return


def _list_known_effects(part: SimpleCommand, name: str) -> Iterator[Effect]:
    try:
        # By its words alone: redirections and assignments, which would refuse it, do not matter here.
        yield from _list_reads(part, check_words(part))
        return
    except NotReadOnly:
        pass
    program = load_file_programs().get(name)
    if program is None:
        yield from _list_other_effects(part, name)
        return
    arguments = parse_file_arguments(program, part.tokens[1:])
    if program.transfer is not None:
        yield from list_transfers(part, program, arguments)
    else:
        yield from _list_operand_effects(part, program, arguments)


def _list_reads(part: SimpleCommand, access: ReadAccess) -> Iterator[Effect]:
    name = part.words[0]
    lists, deep = name in _LISTS_NAMES, access.deep or name in _READS_FOLDERS
    # In two folders it compares what has the same name, through links, recursive or not.
    compares = name in _COMPARES and all(token.text != "--no-dereference" for token in part.tokens)
    follows = access.follows or compares
    for word in access.files:
        yield FileTarget(word, part.folders, "read", deep, follows, lists)
    recurses = name in _READS_HERE and any("recurse" in token.text for token in part.tokens[1:])
    if access.folder or (recurses and not access.files):
        yield FileTarget(None, part.folders, "read", deep, follows, lists)
    if access.checksums:
        yield UnknownEffect(f"what {name} reads stands in {access.checksums[0].source}", reads=True)


def _list_other_effects(part: SimpleCommand, name: str) -> Iterator[Effect]:
    """Of a program that is not in the table: a read-only one with other options, or any."""
    # Also of one that only reads in other forms: `pip install` and `shuf -o` write.
    yield UnknownEffect(f"it is not known what {name} does to files")
    if name not in load_programs() or name in _WRITES_OTHERWISE:
        yield from _list_mentions(part)
        return
    found = parse_file_arguments(_READS_DEEP, part.tokens[1:])
    for effect in _list_operand_effects(part, _READS_DEEP, found):
        yield replace(effect, lists=name in _LISTS_NAMES) if isinstance(effect, FileTarget) else effect
    if name in _READS_HERE:
        yield FileTarget(None, part.folders, "read", deep=True, lists=name in _LISTS_NAMES)


def _list_mentions(part: SimpleCommand) -> Iterator[Effect]:
    yield from (MentionedText(token.text or token.source, part.folders) for token in part.tokens[1:])
    for found in part.redirections:
        if found.operator.startswith("<<"):
            yield MentionedText(found.target.text or found.target.source, part.folders)


def _list_operand_effects(part: SimpleCommand, program: FileProgram, found: FileArguments) -> Iterator[Effect]:
    skipped = 0 if found.has(program.unless) else program.skips
    operands = found.operands[skipped:]
    edits = found.has(program.in_place)
    action: FileAction = "write" if edits else program.action
    deep = program.deep or found.has(program.deep_options)
    follows = found.has(program.follow_options)
    for place, word in enumerate(operands):
        last = place == len(operands) - 1 and len(operands) > 1
        writes = edits or program.writes == "all" or (program.writes == "last" and last)
        if writes or program.reads != "none":
            yield FileTarget(word, part.folders, action if writes else "read", deep, follows)
        if writes:
            yield from _list_derived(part, program, found, word)
    yield from list_option_files(part, program, found)
    if program.script:
        yield from list_script_effects(part, program, found)
    if program.code:
        yield UnknownEffect(f"it is not known what the code that {part.words[0]} runs does to files")
        yield from _list_mentions(part)
    changes = program.writes != "none" or edits
    reads = program.reads != "none" and not program.code
    yield from report_unknown(program, found, UnknownEffect("", reads=reads, writes=changes))


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


def list_transfers(part: SimpleCommand, program: FileProgram, found: FileArguments) -> Iterator[Effect]:
    """What cp, mv, ln and their like do."""
    assert program.transfer is not None
    yield from list_option_files(part, program, found)
    given = found.list_values(program.folder_options)
    operands = list(found.operands)
    if program.remote and any(map(_is_remote, operands)):
        yield from _list_sent(part, operands)
        return
    if found.has(program.makes_folders):
        yield from (FileTarget(word, part.folders, "create") for word in operands)
        return
    basis = Transfer(
        (),
        make_literal_word("."),
        part.folders,
        "link" if found.has(program.link_options) else "move" if found.has(program.move_options) else program.transfer,
        program.deep or found.has(program.deep_options),
        keeps_path=found.has(program.keeps_path),
        copies_inside=program.copies_inside,
        follows=found.has(program.follow_options),
        backups=_find_backups(program, found),
    )
    if found.unknown is not None:
        # Any operand may be the destination, and every other one its source.
        for target in [*operands, *given]:
            others = tuple(word for word in operands if word is not target)
            yield replace(basis, sources=others, destination=target, deep=True, destination_is="unknown")
            yield replace(basis, destination=target, destination_is="name")
        yield UnknownEffect(f"it is not known what {found.unknown} does", reads=True, writes=True)
        return
    form: Literal["folder", "name", "either", "unknown"] = "either"
    if given:
        sources, destination, form = operands, given[-1], "folder"
    elif len(operands) == 1 and program.transfer == "link":
        sources, destination, form = operands, basis.destination, "folder"
    else:
        sources, destination = operands[:-1], operands[-1] if operands else basis.destination
    if found.has(program.name_options):
        form = "name"
    elif len(sources) > 1:
        form = "folder"
    elif form == "either" and found.has(program.unsure_options):
        form = "unknown"
    if sources:
        yield replace(basis, sources=tuple(sources), destination=destination, destination_is=form)
    if found.has(program.delete_options):
        yield FileTarget(destination, part.folders, "delete", deep=True)
    yield from report_unknown(program, found, UnknownEffect("", reads=True, writes=True))


def _find_backups(program: FileProgram, found: FileArguments) -> tuple[str, ...]:
    if not found.has(program.backup_options):
        return ()
    return ("~", ".~1~", *(value.text for value in found.list_values(program.backup_options)))


def _is_remote(word: Word) -> bool:
    """`host:path` of rsync and scp; what has a slash before the colon is a file."""
    return ":" in word.text.split("/")[0]


def _list_sent(part: SimpleCommand, operands: Sequence[Word]) -> Iterator[Effect]:
    """What goes to another machine, or comes from one: then with names that are known there alone."""
    *sources, destination = operands
    yield from (FileTarget(word, part.folders, "read", deep=True) for word in sources if not _is_remote(word))
    if not _is_remote(destination):
        yield FileTarget(destination, part.folders, "create")
        for word in sources:
            name = word.text.rpartition(":")[2].rstrip("/").rpartition("/")[2]
            yield FileTarget(make_literal_word(f"{destination.text}/{name}"), part.folders, "create")
        yield UnknownEffect("what it brings from another machine is known only when it runs", writes=True)


def _list_find_effects(part: SimpleCommand) -> Iterator[Effect]:
    """Its roots are read with all below, by name; what `-exec` does with `{}` it does to all of them."""
    tokens = [token for token in part.tokens[1:] if token.text not in {"-H", "-L", "-P"}]
    first = next((place for place, token in enumerate(tokens) if token.text.startswith(_FIND_BEGINS)), len(tokens))
    roots: list[Word | None] = list(tokens[:first]) or [None]
    follows = any(token.text in {"-L", "-follow"} for token in part.tokens)
    for root in roots:
        yield FileTarget(root, part.folders, "read", deep=True, follows=follows, lists=True)
        if any(token.text == "-delete" for token in tokens):
            yield FileTarget(root, part.folders, "delete", deep=True)
    for token, following in pairwise(tokens):
        if token.text in _FIND_WRITES:
            yield FileTarget(following, part.folders, "write")
        elif token.text == "-files0-from":
            yield FileTarget(following, part.folders, "read")
            yield UnknownEffect("its roots are read from a file", reads=True, writes=True)
        elif token.text in {"-newer", "-samefile"}:
            yield FileTarget(following, part.folders, "read")
    running = [place for place, token in enumerate(tokens) if token.text in {"-exec", "-execdir", "-ok", "-okdir"}]
    if len(running) > _MAX_RUN or any(token.kind == "unknown" for token in tokens):
        yield UnknownEffect("what it runs is not looked at in whole", reads=True, writes=True)
    for place in running[:_MAX_RUN]:
        token = tokens[place]
        if place >= first:
            inner = replace(part, tokens=tuple(_take_until_end(tokens[place + 1 :])), redirections=())
            inner = replace(inner, folders=None) if token.text.endswith("dir") else inner
            yield from _list_found_effects(inner, roots, follows=follows, links=not _finds_only_files(tokens))


def _finds_only_files(tokens: Sequence[Word]) -> bool:
    """`-type f`, with nothing that would let something else through: no link is among what it finds."""
    texts = [token.literal for token in tokens]
    return ("-type", "f") in pairwise(texts) and not _FIND_OPERATORS & set(texts)


def _take_until_end(tokens: Sequence[Word]) -> list[Word]:
    ends = [place for place, token in enumerate(tokens) if token.literal in {";", "+"}]
    return list(tokens[: ends[0]] if ends else tokens)


def _list_found_effects(
    part: SimpleCommand, roots: Sequence[Word | None], *, follows: bool, links: bool
) -> Iterator[Effect]:
    """The command with each root in place of `{}`: it is run for everything below. `links`: these, too, are found."""
    for root in roots:
        stands_for = root or make_literal_word(".")
        words = tuple(stands_for if "{}" in token.text else token for token in part.tokens)
        for inner in unwrap(replace(part, tokens=words)):
            for effect in _list_program_effects(inner):
                yield from _deepen(effect, stands_for, follows=follows, links=links)


def _deepen(effect: Effect, found: Word, *, follows: bool, links: bool) -> Iterator[Effect]:
    match effect:
        case FileTarget(word=word) if word is found:
            # A link among what is found is opened by its name, and so is what it leads to.
            yield replace(effect, deep=True, follows=follows or effect.follows or (links and not effect.lists))
        case Transfer():
            yield replace(effect, deep=True)
            yield UnknownEffect("which files it moves is known only when it runs", reads=True, writes=True)
        case _:
            yield effect
