"""What a person attached to their words, as blocks that the model is sent: a file that they named becomes its lines."""

import hashlib
import os
from collections.abc import Sequence
from typing import Any, Final, assert_never

import anyio
import anyio.to_thread

from ostler.protocol.turn import InputBlock, InputDocument, InputFile, InputImage, InputText
from ostler.server.prompt.bounded_read import IsFolder, Unreadable, read_beginning, real_inside
from ostler.server.prompt.environment import printable
from ostler.server.prompt.reminders import note

MAX_BYTES: Final = 200_000
"""Of one file, as it is shown."""
MAX_LOOKED_THROUGH: Final = 10_000_000
"""How far into a file its lines are counted."""
MAX_ENTRIES: Final = 500

_THREADS: Final = anyio.CapacityLimiter(4)


async def expand(blocks: Sequence[InputBlock], folder: str, roots: Sequence[str]) -> list[dict[str, Any]]:
    """The blocks for the model. Files are read only below the roots; a text without words is left out."""
    expanded = [await _expanded(block, folder, roots) for block in blocks]
    return [block for block in expanded if block is not None]


async def _expanded(block: InputBlock, folder: str, roots: Sequence[str]) -> dict[str, Any] | None:
    match block:
        case InputText(text=text):
            return {"type": "text", "text": text} if text.strip() else None
        case InputImage(source=source):
            return {"type": "image", "source": source.model_dump()}
        case InputDocument(source=source, title=title):
            return {"type": "document", "source": source.model_dump()} | ({"title": title} if title else {})
        case InputFile():
            text = await anyio.to_thread.run_sync(
                _mentioned, block, folder, roots, limiter=_THREADS, abandon_on_cancel=True
            )
            return {"type": "text", "text": text}
        case _:
            assert_never(block)


def _mentioned(block: InputFile, folder: str, roots: Sequence[str]) -> str:
    path = os.path.join(folder, block.path)
    try:
        return _file(block, path, roots)
    except IsFolder:
        return _folder(block, path, roots)
    except Unreadable as problem:
        return note(f'"{printable(block.path)}", which the person mentioned, {problem}.')


def _file(block: InputFile, path: str, roots: Sequence[str]) -> str:
    ranged = block.start_line is not None or block.end_line is not None
    found = read_beginning(path, roots, MAX_LOOKED_THROUGH if ranged else MAX_BYTES)
    lines = found.text.removesuffix("\n").split("\n") if found.text else []
    first = block.start_line or 1
    wanted = lines[first - 1 : block.end_line]
    shown = _numbered(wanted, first)
    last = first + len(shown) - 1
    reached_end = found.whole or (block.end_line is not None and last >= block.end_line)
    if not shown:
        shown.append("(there are no such lines)" if lines or not found.whole else "(the file is empty)")
        return _wrapped("ostler-file", block.path, "\n".join(shown))
    if len(shown) < len(wanted) or not reached_end:
        shown.append(f"(cut in line {last}; read the file for the rest)")
    return _wrapped("ostler-file", block.path, "\n".join(shown), f' lines="{first}-{last}"')


def _numbered(lines: Sequence[str], first: int) -> list[str]:
    """As many lines as fit."""
    shown: list[str] = []
    room = MAX_BYTES
    for number, line in enumerate(lines, first):
        encoded = line.encode("utf-8", "replace")[:room]
        shown.append(f"{number:>6}\t{encoded.decode('utf-8', 'ignore').removesuffix(chr(13))}")
        room -= len(encoded) + 1
        if room <= 0:
            break
    return shown


def _folder(block: InputFile, path: str, roots: Sequence[str]) -> str:
    real = real_inside(path, roots)
    try:
        with os.scandir(real) as entries:
            names = [entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries]
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror})") from None
    names.sort()
    shown = [printable(name) for name in names[:MAX_ENTRIES]]
    if len(names) > MAX_ENTRIES:
        shown.append(f"(and {len(names) - MAX_ENTRIES} more)")
    return _wrapped("ostler-folder", block.path, "\n".join(shown) or "(the folder is empty)")


def _wrapped(tag: str, path: str, body: str, extra: str = "") -> str:
    # Its own digest closes it: no file can contain that, and so none can pretend to end early.
    mark = hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()[:12]
    return f'<{tag} id="{mark}" path="{printable(path)}"{extra}>\n{body}\n</{tag} id="{mark}">'
