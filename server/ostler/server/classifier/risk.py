"""What never passes on a model's word alone. The tables stand in risk.toml."""

import posixpath
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from ostler.server.classifier.command_risk import command_names, command_risk
from ostler.server.classifier.tables import table
from ostler.server.classifier.types import Question
from ostler.tools.commands import read_command
from ostler.tools.fs import paths
from ostler.tools.fs.protected_paths import why_guarded

_BETWEEN_NAMES: Final = re.compile(r"[^\w./~*-]+")


def is_high_risk(question: Question) -> str | None:
    """Why a person has to see this call whatever a model says of it; None where nothing speaks for it.

    Looks at the disk, since links decide where a path leads. What is not understood is high risk.
    """
    tables = table("risk.toml")
    if question.destructive:
        return "it deletes, overwrites or sends something for good"
    if not question.roots:
        return "there is no folder that it could stay in"
    if question.tool in tables["unread_tools"]:
        return f"commands of {question.tool} cannot be taken apart here"
    if question.tool in tables["command_tools"]:
        return _of_command(question)
    if question.tool in tables["file_tools"]:
        return _of_file(question)
    return _of_names(_BETWEEN_NAMES.split(question.text), question.folder)


def _of_command(question: Question) -> str | None:
    reading = read_command(question.text)
    found = command_risk(reading, question.folder, question.roots)
    if found is not None:
        return found
    # As they stand in the text, for code within quotes, and as the shell understands them, for quotes within names.
    names = [*_BETWEEN_NAMES.split(question.text), *command_names(reading, question.folder)]
    return _of_names(names, question.folder)


def _of_file(question: Question) -> str | None:
    path = posixpath.join(question.folder, question.text.partition("\n")[0])
    if "\0" in path:
        return "its path holds a NUL byte"
    if not paths.inside_any(paths.real(path), question.roots):
        return "it changes a file outside the project"
    return _of_names([path, paths.real(path)], question.folder)


def _of_names(names: Iterable[str], folder: str) -> str | None:
    for name in dict.fromkeys(names):
        # Only a name with a dot or a slash can be guarded; the rest are words.
        if "." not in name and "/" not in name and not _is_secret(name):
            continue
        guarded = why_guarded(posixpath.join(folder, name))
        if guarded is not None:
            return f"it names {paths.printable(name)[:100]!r}: {guarded}"
        if any(_is_secret(part) for part in name.split("/")):
            return f"it names {paths.printable(name)[:100]!r}, which may hold secrets"
    return None


def _is_secret(name: str) -> bool:
    return any(fnmatchcase(name.casefold(), pattern) for pattern in table("risk.toml")["secret_names"])
