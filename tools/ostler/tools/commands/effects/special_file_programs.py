"""Says what programs do to files whose arguments a table of options cannot describe: dd, tar, zip, curl, patch, sed."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from ostler.tools.commands.effects.file_programs import (
    FileArguments,
    FileProgram,
    load_file_programs,
    parse_file_arguments,
)
from ostler.tools.commands.effects.file_targets import Effect, FileTarget, MentionedText, UnknownEffect
from ostler.tools.commands.safety.program_table import add_suffixes
from ostler.tools.commands.syntax.parsed import SimpleCommand, make_literal_word
from ostler.tools.commands.syntax.words import Word
from ostler.tools.commands.syntax.working_dirs import change_folders

_TAR_PACKS: Final = ("-c", "-r", "-u", "-A", "--create", "--append", "--update", "--catenate", "--concatenate")
_TAR_LISTS: Final = ("-t", "-d", "--list", "--diff", "--compare")
_TAR_FILES: Final = ("-f", "--file")
_TAR_FOLDERS: Final = ("-C", "--directory")
_UNZIP_LISTS: Final = ("-l", "-t", "-v", "-Z", "-z")
_SED_FILES: Final = re.compile(
    r"(?:^|[;{}\n\s\d$/!,|#])[rRwWe](?:\s|$)|[gpIiMm0-9/|#][we](?:\s|$)|(?:^|[;{])\d*[rRwWe]"
)
"""What may be a command of sed that reads, writes or runs something."""
_AWK_FILES: Final = re.compile(r"getline|\bARG[VC]\b|@include|@load|\bsystem\b|\||\bprintf?\b[^}]*>|>>")
_AFTER_SIGN: Final = re.compile(r"[@<]([^;,]+)")


def list_option_files(part: SimpleCommand, program: FileProgram, found: FileArguments) -> Iterator[Effect]:
    """The files that are values of options."""
    for word in found.list_values(program.reads_from):
        yield FileTarget(word, part.folders, "read")
    for word in found.list_values(program.writes_to):
        yield FileTarget(word, part.folders, "write")


def report_unknown(program: FileProgram, found: FileArguments, kind: UnknownEffect) -> Iterator[Effect]:
    """What an option that is not known, or hides what it does, leaves open."""
    named = next((name for name, _ in found.options if name in program.unknown_options), None)
    if (found.unknown is not None and not program.loose) or named is not None:
        yield replace(kind, reason=f"it is not known what {found.unknown or named} does")


def _parse(part: SimpleCommand, name: str | None = None) -> tuple[FileProgram, FileArguments]:
    program = load_file_programs()[name or part.words[0] or ""]
    return program, parse_file_arguments(program, part.tokens[1:])


def _list_dd_effects(part: SimpleCommand) -> Iterator[Effect]:
    for token in part.tokens[1:]:
        key, _, value = token.text.partition("=")
        if token.kind != "literal":
            yield UnknownEffect(f"{token.source} is decided when it runs", reads=True, writes=True)
        elif key in {"if", "of"}:
            yield FileTarget(make_literal_word(value), part.folders, "write" if key == "of" else "read")


def _list_xargs_effects(part: SimpleCommand) -> Iterator[Effect]:
    """The file that it takes its words from; what it runs with them is a command of its own."""
    program, found = _parse(part, "xargs")
    yield from list_option_files(part, program, found)


def _list_tar_effects(part: SimpleCommand) -> Iterator[Effect]:
    program = load_file_programs()["tar"]
    found = parse_file_arguments(program, _dash_first_letters(program, part.tokens[1:]))
    packs = found.has(_TAR_PACKS)
    for word in found.list_values(_TAR_FILES):
        yield FileTarget(word, part.folders, "write" if packs else "read")
    yield from list_option_files(part, program, found)
    if packs:
        moves = "delete" if found.has(("--remove-files",)) else None
        for word, at in _list_packed(part, found):
            yield FileTarget(word, at.folders, "read", deep=True, follows=found.has(("-h", "--dereference")))
            if moves is not None:
                yield FileTarget(word, at.folders, "delete", deep=True)
    elif not found.has(_TAR_LISTS):
        yield from (FileTarget(word, part.folders, "write") for word in found.list_values(_TAR_FOLDERS))
        yield UnknownEffect("what it unpacks stands in the archive", writes=True)
    yield from report_unknown(program, found, UnknownEffect("", reads=True, writes=True))


def _list_packed(part: SimpleCommand, found: FileArguments) -> Iterator[tuple[Word, SimpleCommand]]:
    """What it packs, and where that is looked for: `-C` holds for what follows it."""
    at, folders = part, [id(word) for word in found.list_values(_TAR_FOLDERS)]
    attached = [word for word in found.list_values(_TAR_FOLDERS) if not any(word is token for token in part.tokens)]
    for word in attached:
        at = replace(at, folders=change_folders(at.folders, word.literal))
    for token in part.tokens[1:]:
        if id(token) in folders:
            at = replace(at, folders=change_folders(at.folders, token.literal))
        elif any(token is word for word in found.operands):
            yield token, at
            if attached:
                yield token, part
    for word in found.operands:
        if not any(word is token for token in part.tokens):
            yield word, at


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


def _list_zip_effects(part: SimpleCommand) -> Iterator[Effect]:
    """The first operand is the archive, the others go into it, folders with all below."""
    program, found = _parse(part)
    archive, packed = found.operands[:1], found.operands[1:]
    for word in archive:
        yield FileTarget(word, part.folders, "write")
        if word.kind == "literal":
            yield FileTarget(make_literal_word(f"{word.text}.zip"), part.folders, "write")
    for word in packed:
        yield FileTarget(word, part.folders, "read", deep=True)
        if found.has(("-m", "--move")):
            yield FileTarget(word, part.folders, "delete", deep=True)
    yield from list_option_files(part, program, found)
    yield from report_unknown(program, found, UnknownEffect("", reads=True, writes=True))


def _list_unzip_effects(part: SimpleCommand) -> Iterator[Effect]:
    program, found = _parse(part)
    archives = add_suffixes(found.operands[:1], (".zip", ".ZIP"))
    yield from (FileTarget(word, part.folders, "read") for word in archives)
    yield from list_option_files(part, program, found)
    if not found.has((*_UNZIP_LISTS, "-p", "-c")) or found.unknown is not None:
        yield UnknownEffect("what it unpacks stands in the archive", writes=True)


def _list_curl_effects(part: SimpleCommand) -> Iterator[Effect]:
    """`@FILE` and `<FILE` are read and sent; `-O` names the file after its address."""
    program, found = _parse(part, "curl")
    yield from list_option_files(part, program, found)
    folders = found.list_values(("--output-dir",))
    for word in found.list_values(("-o", "--output")):
        yield from (FileTarget(_join(folder, word.text), part.folders, "write") for folder in folders)
    for _, value in found.options:
        for name in _AFTER_SIGN.findall(value.text) if value is not None else ():
            yield FileTarget(make_literal_word(name), part.folders, "read")
    addresses = [*found.operands, *found.list_values(("--url",))]
    for word in addresses:
        if word.text.lower().startswith("file:"):
            yield FileTarget(make_literal_word(_get_file_path(word.text)), part.folders, "read")
        if found.has(("-O", "--remote-name", "--remote-name-all")):
            yield FileTarget(_join(folders[0] if folders else None, _get_base_name(word)), part.folders, "create")
            if word.kind != "literal" or set(word.text) & set("[{"):
                yield UnknownEffect("the name of a file that it writes is made when it runs", writes=True)
    for word in found.list_values(("-b", "--cookie")):
        if "=" not in word.text:
            yield FileTarget(word, part.folders, "read")
    # What other options do is known well enough: they write no file that the line does not name.
    yield from report_unknown(program, found, UnknownEffect("", reads=False, writes=False))
    if found.unknown is not None:
        yield from (MentionedText(token.text or token.source, part.folders) for token in part.tokens[1:])


def _list_wget_effects(part: SimpleCommand) -> Iterator[Effect]:
    program, found = _parse(part)
    yield from list_option_files(part, program, found)
    folders = found.list_values(("-P", "--directory-prefix"))
    if not found.has(("-O", "--output-document", "--spider")):
        for word in found.operands:
            name = _get_base_name(word, keeps_query=True) or "index.html"
            yield FileTarget(_join(folders[0] if folders else None, name), part.folders, "create")
    hides = ("-r", "-m", "-p", "-x", "-i", "--recursive", "--mirror", "--page-requisites", "--content-disposition")
    if found.has(hides) or found.unknown is not None or any(word.kind != "literal" for word in found.operands):
        yield UnknownEffect("the names of the files that it writes are made when it runs", writes=True)


def _get_base_name(address: Word, *, keeps_query: bool = False) -> str:
    text = address.text.partition("#")[0]
    text = text if keeps_query else text.partition("?")[0]
    return text.partition("://")[2].rpartition("/")[2] if "://" in text else text.rpartition("/")[2]


def _get_file_path(address: str) -> str:
    rest = address[len("file:") :]
    return "/" + rest.removeprefix("//").partition("/")[2] if rest.startswith("//") else rest


def _join(folder: Word | None, name: str) -> Word:
    return make_literal_word(f"{folder.text}/{name}" if folder is not None else name)


def _list_patch_effects(part: SimpleCommand) -> Iterator[Effect]:
    """The file that is patched, with its backup and what was rejected; without a name the patch has it."""
    program, found = _parse(part)
    at = part
    for word in found.list_values(("-d", "--directory")):
        at = replace(part, folders=change_folders(part.folders, word.literal))
    for word in found.operands[:1]:
        yield from (FileTarget(each, at.folders, "write") for each in (word, *_list_endings(word, (".orig", ".rej"))))
    yield from (FileTarget(word, at.folders, "read") for word in found.operands[1:])
    yield from list_option_files(at, program, found)
    if not found.operands and not found.has(("--dry-run",)):
        yield UnknownEffect("the names of the files that it writes stand in the patch", writes=True)
    yield from report_unknown(program, found, UnknownEffect("", reads=True, writes=True))


def _list_endings(word: Word, endings: Sequence[str]) -> list[Word]:
    return [Word(f"{word.text}{ending}", f"{word.text}{ending}", word.kind) for ending in endings]


def list_script_effects(part: SimpleCommand, program: FileProgram, found: FileArguments) -> Iterator[Effect]:
    """Files that the script of sed or awk reads and writes by itself."""
    texts = [
        *found.list_values(("-e", "--expression", "--source")),
        *(() if found.has(program.unless) else found.operands[: program.skips]),
    ]
    known = _SED_FILES if program.in_place else _AWK_FILES
    for word in texts:
        if word.kind == "unknown" or known.search(word.text):
            yield UnknownEffect("its script may read and write other files", reads=True, writes=True)
            yield MentionedText(word.text or word.source, part.folders)


def _list_crontab_effects(part: SimpleCommand) -> Iterator[Effect]:
    """But for `-l`, it changes what the machine runs by itself."""
    options = [token.text for token in part.tokens[1:]]
    yield from (FileTarget(token, part.folders, "read") for token in part.tokens[1:] if not token.text.startswith("-"))
    if "-l" not in options:
        yield FileTarget(make_literal_word("/var/spool/cron"), part.folders, "write")


SPECIAL_FILES: Final[dict[str, Callable[[SimpleCommand], Iterator[Effect]]]] = {
    "bsdtar": _list_tar_effects,
    "crontab": _list_crontab_effects,
    "curl": _list_curl_effects,
    "dd": _list_dd_effects,
    "parallel": _list_xargs_effects,
    "patch": _list_patch_effects,
    "tar": _list_tar_effects,
    "unzip": _list_unzip_effects,
    "wget": _list_wget_effects,
    "xargs": _list_xargs_effects,
    "zip": _list_zip_effects,
}
