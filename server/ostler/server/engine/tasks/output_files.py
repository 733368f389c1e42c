"""The output files of tasks: read, decode, remove. Everything here blocks."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from ostler.tools.sandbox import release_noted_placeholders
from ostler.tools.shell.output.output_file import Ending, OutputFile, OutputPiece
from ostler.tools.shell.running.launch import build_note_path


@dataclass(frozen=True, slots=True)
class OutputPart:
    """Text, and its position in bytes."""

    offset: int
    text: str
    end: int


def read_part(path: str, offset: int, most: int, *, over: bool) -> OutputPart:
    """Text from a position on; `over`: the task has ended, so that an incomplete character is taken too.

    The file is opened again each time: the watcher of the task may close its own at any moment.
    """
    try:
        output = OutputFile.open(path)
    except OSError:
        return OutputPart(offset, "", offset)
    try:
        printed, size = output.read_after(offset, most), output.size
    finally:
        output.close()
    if printed.end < size:
        # What is cut here goes on at the next position, unless only a hole follows.
        return decode_part(offset, printed, whole=not strip_partial_character(printed.data))
    return decode_part(offset, printed, whole=over)


def decode_part(asked: int, printed: OutputPiece, *, whole: bool) -> OutputPart:
    """Decode what was printed; an incomplete character at the end is left for later, unless `whole`."""
    data = printed.data if whole else strip_partial_character(printed.data)
    end = printed.offset + len(data)
    if printed.offset > asked:
        # Something was skipped, perhaps in the middle of a character.
        data = _strip_leading_fragment(data)
    return OutputPart(end - len(data), data.decode("utf-8", "replace"), end)


def strip_partial_character(data: bytes) -> bytes:
    """Without an incomplete character at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data


def _strip_leading_fragment(data: bytes) -> bytes:
    """Without the rest of a character at the beginning."""
    for index, byte in enumerate(data[:4]):
        if byte & 0xC0 != 0x80:
            return data[index:]
    return data


def open_or_create(path: str) -> OutputFile:
    """Open the file of a task that still runs; create an empty one where it was removed."""
    try:
        return OutputFile.open(path)
    except FileNotFoundError:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return OutputFile.open(path)


def read_ending(path: str) -> tuple[Ending, int]:
    try:
        output = OutputFile.open(path)
    except OSError:
        return Ending(None, None), 0
    try:
        return output.read_ending(), output.size
    finally:
        output.close()


def make_seen_path(path: str) -> str:
    """The file beside a monitor's output that holds the last text of the resource."""
    return f"{path}.seen"


def make_seen_draft_path(path: str) -> str:
    """The same while it is being written."""
    return f"{make_seen_path(path)}.new"


def remove_output_files(paths: list[str]) -> None:
    """Remove output files of ended commands, with the files beside them and what protected their sandbox."""
    for path in paths:
        release_noted_placeholders(build_note_path(path))
        for each in (path, f"{path}.end", make_seen_path(path), make_seen_draft_path(path)):
            with contextlib.suppress(OSError):
                os.unlink(each)


def find_strays(folder: Path, kept: set[str]) -> list[str]:
    """Output files of foreground commands that a crash left: call it before this daemon runs any command."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        found = {_find_owner(entry.path) for entry in entries if entry.name.startswith("call-")}
        return sorted(found - kept)
    return []


def _find_owner(path: str) -> str:
    """The output file that a file beside it belongs to."""
    return (
        path.removesuffix(".end")
        .removesuffix(build_note_path(""))
        .removesuffix(".new")
        .removesuffix(make_seen_path(""))
    )
