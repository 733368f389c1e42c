"""What tasks have printed, on the disk. All of it blocks."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from ostler.tools.sandbox import release_noted
from ostler.tools.shell.output.output_file import Ending, OutputFile, Printed
from ostler.tools.shell.running.launch import held_note


@dataclass(frozen=True, slots=True)
class Part:
    """Text, and its place in bytes."""

    offset: int
    text: str
    end: int


def part_of(path: str, offset: int, most: int, *, over: bool) -> Part:
    """Text from a place on; of a task that is over, all that there is.

    The file is opened anew each time: the one of whoever watches the task may be closed at any moment.
    """
    try:
        output = OutputFile.open(path)
    except OSError:
        return Part(offset, "", offset)
    try:
        printed, size = output.after(offset, most), output.size
    finally:
        output.close()
    if printed.end < size:
        # What is cut here goes on at the next place, unless there is only a hole behind it.
        return decoded(offset, printed, whole=not whole_characters(printed.data))
    return decoded(offset, printed, whole=over)


def decoded(asked: int, printed: Printed, *, whole: bool) -> Part:
    """The beginning of a character whose end is still to come is left for later."""
    data = printed.data if whole else whole_characters(printed.data)
    end = printed.offset + len(data)
    if printed.offset > asked:
        # Something was passed over, perhaps in the middle of a character.
        data = _without_rest(data)
    return Part(end - len(data), data.decode("utf-8", "replace"), end)


def whole_characters(data: bytes) -> bytes:
    """Without the beginning of a character whose end is still to come."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data


def _without_rest(data: bytes) -> bytes:
    """Without the end of a character that began before."""
    for place, byte in enumerate(data[:4]):
        if byte & 0xC0 != 0x80:
            return data[place:]
    return data


def opened(path: str) -> OutputFile:
    """The file of a task that still runs; where somebody removed it, an empty one in its place."""
    try:
        return OutputFile.open(path)
    except FileNotFoundError:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return OutputFile.open(path)


def left_by(path: str) -> tuple[Ending, int]:
    try:
        output = OutputFile.open(path)
    except OSError:
        return Ending(None, None), 0
    try:
        return output.ending(), output.size
    finally:
        output.close()


def seen_path(path: str) -> str:
    """The file beside a monitor's that holds what the resource said last."""
    return f"{path}.seen"


def seen_draft(path: str) -> str:
    """The same while it is being written."""
    return f"{seen_path(path)}.new"


def remove(paths: list[str]) -> None:
    """With all that their commands kept, which have ended."""
    for path in paths:
        release_noted(held_note(path))
        for each in (path, f"{path}.end", seen_path(path), seen_draft(path)):
            with contextlib.suppress(OSError):
                os.unlink(each)


def strays(folder: Path, kept: set[str]) -> list[str]:
    """Files of foreground commands that a crash left: asked before any command of this daemon runs."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        found = {_owner(entry.path) for entry in entries if entry.name.startswith("call-")}
        return sorted(found - kept)
    return []


def _owner(path: str) -> str:
    """The file that one of those beside it belongs to."""
    return path.removesuffix(".end").removesuffix(held_note("")).removesuffix(".new").removesuffix(seen_path(""))
