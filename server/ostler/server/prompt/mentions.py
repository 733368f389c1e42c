"""Expands a person's input into the blocks that the model is sent: a file that they mentioned becomes its lines."""

import hashlib
import os
from collections.abc import Sequence
from typing import Any, Final, assert_never

import anyio
import anyio.to_thread

from ostler.protocol.turn import Input, InputBlock, InputDocument, InputFile, InputImage, InputText
from ostler.server.prompt.bounded_read import IsFolder, Unreadable, read_beginning, resolve_inside
from ostler.server.prompt.environment import to_printable
from ostler.server.prompt.reminders import wrap_note
from ostler.tools.formats.image_blocks import correct_images
from ostler.tools.fs.similar_paths import PathFilter

MAX_BYTES: Final = 200_000
"""Of one file, as it is shown."""
MAX_SCANNED_BYTES: Final = 10_000_000
"""How far into a file its lines are counted."""
MAX_ENTRIES: Final = 500

_THREADS: Final = anyio.CapacityLimiter(4)


def mentions_files(given: Input) -> bool:
    return not isinstance(given, str) and any(isinstance(block, InputFile) for block in given)


async def expand(
    blocks: Sequence[InputBlock], folder: str, roots: Sequence[str], may_read: PathFilter
) -> list[dict[str, Any]]:
    """The blocks for the model. Files are read below the roots, as far as the filter lets them.

    A text without words is left out.
    """
    expanded = [await _expand_block(block, folder, roots, may_read) for block in blocks]
    return [block for block in expanded if block is not None]


async def _expand_block(
    block: InputBlock, folder: str, roots: Sequence[str], may_read: PathFilter
) -> dict[str, Any] | None:
    match block:
        case InputText(text=text):
            return {"type": "text", "text": text} if text.strip() else None
        case InputImage(source=source):
            return correct_images([{"type": "image", "source": source.model_dump()}])[0]
        case InputDocument(source=source, title=title):
            return {"type": "document", "source": source.model_dump()} | ({"title": title} if title else {})
        case InputFile():
            text = await anyio.to_thread.run_sync(
                _render_mention, block, folder, roots, may_read, limiter=_THREADS, abandon_on_cancel=True
            )
            return {"type": "text", "text": text}
        case _:
            assert_never(block)


def _render_mention(block: InputFile, folder: str, roots: Sequence[str], may_read: PathFilter) -> str:
    path = os.path.join(folder, block.path)
    try:
        resolve_inside(path, roots)
        if not may_read(path):
            raise Unreadable("may not be read in this session")
        return _render_file(block, path, roots)
    except IsFolder:
        return _render_folder(block, path, roots)
    except Unreadable as problem:
        return wrap_note(f'"{to_printable(block.path)}", which the person mentioned, {problem}.')


def _render_file(block: InputFile, path: str, roots: Sequence[str]) -> str:
    ranged = block.start_line is not None or block.end_line is not None
    found = read_beginning(path, roots, MAX_SCANNED_BYTES if ranged else MAX_BYTES)
    lines = found.text.removesuffix("\n").split("\n") if found.text else []
    first = block.start_line or 1
    wanted = lines[first - 1 : block.end_line]
    shown = _number_lines(wanted, first)
    last = first + len(shown) - 1
    reached_end = found.whole or (block.end_line is not None and last >= block.end_line)
    if not shown:
        shown.append("(there are no such lines)" if lines or not found.whole else "(the file is empty)")
        return _wrap_in_tag("ostler-file", block.path, "\n".join(shown))
    if len(shown) < len(wanted) or not reached_end:
        shown.append(f"(cut in line {last}; read the file for the rest)")
    return _wrap_in_tag("ostler-file", block.path, "\n".join(shown), f' lines="{first}-{last}"')


def _number_lines(lines: Sequence[str], first: int) -> list[str]:
    """As many lines as fit."""
    shown: list[str] = []
    bytes_left = MAX_BYTES
    for number, line in enumerate(lines, first):
        encoded = line.encode("utf-8", "replace")[:bytes_left]
        shown.append(f"{number:>6}\t{encoded.decode('utf-8', 'ignore').removesuffix(chr(13))}")
        bytes_left -= len(encoded) + 1
        if bytes_left <= 0:
            break
    return shown


def _render_folder(block: InputFile, path: str, roots: Sequence[str]) -> str:
    real = resolve_inside(path, roots)
    try:
        with os.scandir(real) as entries:
            names = [entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries]
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror})") from None
    names.sort()
    shown = [to_printable(name) for name in names[:MAX_ENTRIES]]
    if len(names) > MAX_ENTRIES:
        shown.append(f"(and {len(names) - MAX_ENTRIES} more)")
    return _wrap_in_tag("ostler-folder", block.path, "\n".join(shown) or "(the folder is empty)")


def _wrap_in_tag(tag: str, path: str, body: str, extra: str = "") -> str:
    # Its own digest closes it: no file can contain that, and so none can pretend to end early.
    mark = hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()[:12]
    return f'<{tag} id="{mark}" path="{to_printable(path)}"{extra}>\n{body}\n</{tag} id="{mark}">'
