"""Checks lists of checksums (`sha256sum -c LIST`): what they name has to lie below the folder that it runs in."""

import os
import re
from collections.abc import Sequence
from typing import Final

from ostler.tools.commands.safety.program_table import NotReadOnly, Program, ReadAccess, parse_arguments
from ostler.tools.commands.syntax.words import Word

_MAX_BYTES: Final = 1024 * 1024
_FLAGS: Final = frozenset({"c", "check"})
_FORMS: Final = Program(
    short="cwbt",
    long=("check", "quiet", "status", "strict", "warn", "ignore-missing", "binary", "text"),
    operands="files",
    least=1,
)
# As the programs themselves read a line. One that begins with a backslash has a name with escapes in it.
_LINE: Final = re.compile(r"[ \t]*(?:[0-9a-fA-F]{32,128} [ *]?(.+)|[A-Z0-9/-]+ ?\((.+)\) ?= ?[0-9a-fA-F]+)|[ \t]*|#.*")


def check_checksums(program: Program, tokens: Sequence[Word]) -> ReadAccess:
    """What such a program reads: its operands, or with `-c` the files that stand in them. Raises NotReadOnly."""
    if not any((token.literal or "").startswith("--c") or re.match("-[a-z]*c", token.text) for token in tokens):
        found = parse_arguments(program, tokens)
        return ReadAccess(tuple(found.operands))
    found = parse_arguments(_FORMS, tokens)
    lists = tuple(found.operands)
    if any(each.kind not in {"literal", "home"} or each.text == "-" for each in lists):
        raise NotReadOnly("the list of checksums is known only when it runs")
    return ReadAccess(lists, checksums=lists)


def find_checksum_problem(lists: Sequence[Word], folder: str) -> str | None:
    """Which list names a file that does not lie below a folder, used there. None: none does. Blocks."""
    top = os.path.realpath(folder)
    for each in lists:
        path = os.path.join(folder, os.path.expanduser(each.text) if each.kind == "home" else each.text)
        try:
            if not os.path.isfile(path) or os.path.getsize(path) > _MAX_BYTES:
                return f"{each.source} is no list that can be looked at"
            with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
                lines = file.read(_MAX_BYTES).split("\n")
        except OSError as error:
            return f"{each.source} cannot be looked at: {error.strerror}"
        for line in lines:
            if (problem := _find_line_problem(line, top)) is not None:
                return f"{each.source} {problem}"
    return None


def _find_line_problem(line: str, top: str) -> str | None:
    found = _LINE.fullmatch(line)
    if found is None or "\0" in line:
        return "has a line that is not understood"
    name = found[1] or found[2]
    if name is None:
        return None
    if not os.path.realpath(os.path.join(top, name)).startswith(f"{top.rstrip('/')}/"):
        return f"names {name}, which lies elsewhere"
    return None
