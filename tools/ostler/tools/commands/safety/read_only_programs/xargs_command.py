"""Checks xargs, which gets the names of files from the commands before it in a pipeline."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Final, Literal

from ostler.tools.commands.safety.program_table import (
    Arguments,
    NotReadOnly,
    Program,
    ReadAccess,
    find_file_operands,
    load_toml,
    parse_arguments,
    parse_program,
)
from ostler.tools.commands.safety.read_only_programs.find_command import (
    CheckWords,
    check_found,
    describe_listing,
    parse_find,
    require_plain_names,
)
from ostler.tools.commands.safety.read_only_programs.listing import Listing
from ostler.tools.commands.syntax.parsed import SimpleCommand
from ostler.tools.commands.syntax.words import Word

_SAME: Final = {"egrep": "grep", "fgrep": "grep", "fdfind": "fd"}
_MARK: Final = re.compile(r"\{\}|%|@|[A-Z_]+")
_SHOWS_HIDDEN: Final = ("A", "almost-all", "H", "hidden", "u", ".")


@cache
def _load(section: Literal["list", "filter", "xargs"]) -> dict[str, Program]:
    entries = load_toml("listings.toml")[section]
    return {"xargs": parse_program(entries, {})} if section == "xargs" else {
        name: parse_program(entry, entries) for name, entry in entries.items()
    }  # fmt: skip


def check_xargs(pipeline: Sequence[SimpleCommand], check: CheckWords) -> ReadAccess:
    """What xargs reads, which ends a pipeline, with the program that it runs. Raises NotReadOnly."""
    *before, last = pipeline
    if any(found.operator.startswith("<") or found.fd == "0" for found in last.redirections):
        raise NotReadOnly("xargs does not get its words from the command before it")
    found = parse_arguments(_load("xargs")["xargs"], last.tokens[1:])
    zero, mark = _read_options(found)
    inner = check_found(found.operands, mark, check)
    if not before or any(each.fd != "2" for part in before for each in part.redirections):
        raise NotReadOnly("xargs passes only behind a list of files")
    for part in before[1:]:
        _check_filter(part)
    listing, ends_in_zero = _read_listing(before[0])
    listing = replace(
        listing,
        splits=not (zero and ends_in_zero),
        follows=listing.follows or inner.follows,
        shallow=listing.shallow and not inner.deep,
    )
    return replace(inner, files=tuple(word for word in inner.files if word.source != "./found"), listing=listing)


def _read_options(found: Arguments) -> tuple[bool, str | None]:
    """Whether only a zero byte separates the words that it gets, and the mark that they replace."""
    mark: str | None = None
    for name, value, _ in found.options:
        text = value.text if value is not None else ""
        if name == "I":
            mark = text
            if not _MARK.fullmatch(text):
                raise NotReadOnly("the mark of xargs is not one of the usual ones")
        elif name in {"d", "delimiter"} and text != "\\n":
            raise NotReadOnly("xargs would split names")
    return found.has(("0", "null")) and not found.has(("d", "delimiter", "I")), mark


def _check_filter(part: SimpleCommand) -> None:
    name = part.words[0] if part.words else None
    program = _load("filter").get(_SAME.get(name or "", name or ""))
    if program is None:
        raise NotReadOnly(f"{name} may change the names that xargs gets")
    parse_arguments(program, part.tokens[1:])


def _read_listing(part: SimpleCommand) -> tuple[Listing, bool]:
    """Which files a command lists, and whether a zero byte ends each name."""
    name = part.words[0] if part.words else None
    arguments = part.tokens[1:]
    if name == "find":
        return _read_find_listing(arguments)
    if name == "git":
        name, arguments = f"git {part.words[1] if len(part.words) > 1 else None}", arguments[1:]
    name = _SAME.get(name or "", name or "")
    program = _load("list").get(name)
    if program is None:
        raise NotReadOnly(f"xargs passes only behind a list of files, and {name} is not known to be one")
    found = parse_arguments(program, arguments)
    files = find_file_operands(program, found)
    if name.startswith("git"):
        files = _check_pathspecs(files)
    require_plain_names(files)
    follows = found.has(("R", "dereference-recursive"))
    listing = Listing(
        tuple(files) or (None,),
        # rg and grep list no links but those that they are given.
        links=name not in {"rg", "grep"},
        follows=follows,
        options=True,
        hidden=name not in {"ls", "rg", "fd"} or found.has(_SHOWS_HIDDEN),
        shallow=name == "ls",
    )
    return listing, name != "ls" and found.has(("0", "null", "print0", "Z" if name == "grep" else "z"))


def _check_pathspecs(words: Sequence[Word]) -> list[Word]:
    """git matches the names below the folder that it runs in with these, unless one leads out of it."""
    for word in words:
        if word.kind != "literal" or word.text[:1] in {"/", ":"} or ".." in word.text.split("/"):
            raise NotReadOnly(f"{word.source} may lead elsewhere")
    return []


def _read_find_listing(tokens: Sequence[Word]) -> tuple[Listing, bool]:
    found = parse_find(tokens, _refuse)
    names = {name for name, _ in found.tests}
    if names & {"-printf", "-ls"}:
        raise NotReadOnly("find prints something else than names")
    return describe_listing(found), "-print0" in names and "-print" not in names


def _refuse(words: Sequence[Word]) -> ReadAccess:
    raise NotReadOnly("it runs another command")
