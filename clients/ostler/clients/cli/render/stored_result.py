"""`show` with a persisted result: all of its text, as it comes."""

import codecs
import json
import sys
from typing import TYPE_CHECKING

from ostler.clients.cli.output import Format, is_terminal, sanitize

if TYPE_CHECKING:
    from ostler.clients import Ostler


async def show_result(ostler: "Ostler", result_id: str, format: Format) -> None:
    """In a pipe byte for byte; a terminal is not steered by what a tool printed."""
    if format == "json":
        await _show_as_json(ostler, result_id)
    elif is_terminal():
        await _show_on_terminal(ostler, result_id)
    else:
        async with ostler.result(result_id) as chunks:
            async for chunk in chunks:
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


async def _show_as_json(ostler: "Ostler", result_id: str) -> None:
    # By hand, as it comes: a result may be longer than what this machine likes to hold twice.
    decoder, total = codecs.getincrementaldecoder("utf-8")(), 0
    async with ostler.result(result_id) as chunks:
        sys.stdout.write(f'{{\n  "result_id": {json.dumps(result_id)},\n  "content": "')
        async for chunk in chunks:
            text = decoder.decode(chunk)
            total += len(text)
            sys.stdout.write(json.dumps(text, ensure_ascii=False)[1:-1])
    sys.stdout.write(f'",\n  "total_chars": {total}\n}}\n')
    sys.stdout.flush()


async def _show_on_terminal(ostler: "Ostler", result_id: str) -> None:
    # A chunk may end within a character.
    decoder = codecs.getincrementaldecoder("utf-8")()
    last = ""
    async with ostler.result(result_id) as chunks:
        async for chunk in chunks:
            text = decoder.decode(chunk)
            sys.stdout.write(sanitize(text))
            last = text or last
    sys.stdout.write("" if last.endswith("\n") else "\n")
    sys.stdout.flush()
