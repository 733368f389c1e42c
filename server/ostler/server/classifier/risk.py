"""Finds calls of high risk, which never pass on a model's opinion alone. The tables are in risk.toml."""

import os
import posixpath
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.server.classifier.tables import load_table
from ostler.server.classifier.types import Question
from ostler.tools.commands import parse_command
from ostler.tools.fs import paths
from ostler.tools.fs.protected_paths import find_protection_reason

_BETWEEN_NAMES: Final = compile_later(r"[^\w./~*-]+")


def find_high_risk(question: Question) -> str | None:
    """Why a person has to see this call whatever a model says of it; None where it is not high risk.

    Looks at the disk, since links decide where a path leads. What is not understood is high risk.
    """
    tables = load_table("risk.toml")
    if question.destructive:
        return "it deletes, overwrites or sends something for good"
    if not question.roots:
        return "there is no folder that it could stay in"
    if question.tool in tables["unread_tools"]:
        return f"commands of {question.tool} cannot be taken apart here"
    if question.tool in tables["command_tools"]:
        return _check_command(question)
    if question.tool in tables["file_tools"]:
        return _check_file(question)
    return _check_names(_BETWEEN_NAMES.split(question.text), question.folder)


def _check_command(question: Question) -> str | None:
    # Imported here, so that the daemon starts faster: few sessions have a classifier.
    from ostler.server.classifier.command_risk import find_command_risk, list_command_names  # noqa: PLC0415

    reading = parse_command(question.text)
    found = find_command_risk(reading, question.folder, question.roots)
    if found is not None:
        return found
    # As written, for code within quotes, and as the shell understands them, for quotes within names.
    names = [*_BETWEEN_NAMES.split(question.text), *list_command_names(reading, question.folder)]
    return _check_names(names, question.folder)


def _check_file(question: Question) -> str | None:
    path = posixpath.join(question.folder, question.text.partition("\n")[0])
    if "\0" in path:
        return "its path holds a NUL byte"
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return "its path is none that the file system can spell"
    if not paths.is_inside_any(paths.resolve_path(path), question.roots):
        return "it changes a file outside the project"
    return _check_names([path, paths.resolve_path(path)], question.folder)


def _check_names(names: Iterable[str], folder: str) -> str | None:
    for name in dict.fromkeys(names):
        # Only a name with a dot or a slash can be guarded; the rest are words.
        if "." not in name and "/" not in name and not _is_secret(name):
            continue
        guarded = find_protection_reason(posixpath.join(folder, name))
        if guarded is not None:
            return f"it names {paths.make_printable(name)[:100]!r}: {guarded}"
        if any(_is_secret(part) for part in name.split("/")):
            return f"it names {paths.make_printable(name)[:100]!r}, which may hold secrets"
    return None


def _is_secret(name: str) -> bool:
    return any(fnmatchcase(name.casefold(), pattern) for pattern in load_table("risk.toml")["secret_names"])
