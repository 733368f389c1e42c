"""`show` with a persisted result: all of its text, as it comes."""

import codecs
import sys
from typing import TYPE_CHECKING

from ostler.clients.cli.output import Format, is_terminal, printable, say_json

if TYPE_CHECKING:
    from ostler.clients import Ostler


async def show_result(ostler: "Ostler", result_id: str, format: Format) -> None:
    """In a pipe byte for byte; a terminal is not steered by what a tool printed."""
    if format == "json":
        await _show_as_json(ostler, result_id)
    elif is_terminal():
        await _show_to_a_person(ostler, result_id)
    else:
        async with ostler.result(result_id) as chunks:
            async for chunk in chunks:
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


async def _show_as_json(ostler: "Ostler", result_id: str) -> None:
    async with ostler.result(result_id) as chunks:
        content = b"".join([chunk async for chunk in chunks]).decode()
    say_json({"result_id": result_id, "total_chars": len(content), "content": content})


async def _show_to_a_person(ostler: "Ostler", result_id: str) -> None:
    # A chunk may end within a character.
    decoder = codecs.getincrementaldecoder("utf-8")()
    last = ""
    async with ostler.result(result_id) as chunks:
        async for chunk in chunks:
            text = decoder.decode(chunk)
            sys.stdout.write(printable(text))
            last = text or last
    sys.stdout.write("" if last.endswith("\n") else "\n")
    sys.stdout.flush()
