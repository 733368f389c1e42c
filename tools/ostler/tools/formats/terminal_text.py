"""Cleans terminal output for the model: removes escapes, and keeps the last state of each progress bar."""

import threading
from collections.abc import Iterator
from typing import Final

from ostler.protocol.patterns import compile_later

# Possessive and bounded quantifiers: nothing here backtracks, which would cost time.
_ESCAPES: Final = compile_later(
    r"\x1b\[[0-?]{0,250}+[ -/]{0,250}+[@-~]"  # colours and cursor movements
    r"|\x1b\][^\x07\x1b]*+(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b[PX^_][^\x1b]*+(?:\x1b\\)?"  # strings for the terminal
    r"|\x1b[ -/]{0,250}+[0-~]"  # the rest
)


_CONTROLS: Final = bytes({*range(0x20), 0x7F} - {*b"\t\n"})


_CHUNK_CHARS: Final = 16 * 1024
"""Characters that are cleaned in one call, which holds the interpreter's lock."""


_SHORT: Final = 16 * 1024
"""Characters that are cleaned within two milliseconds, whatever they are."""


_MAX_AHEAD: Final = 16


_cleaned_ahead: Final[dict[str, str]] = {}


_lock: Final = threading.Lock()


def clean_ahead(output: str) -> None:
    """Cleans a long output on the thread that read it, so that the event loop, which asks for it once, has it ready."""
    if len(output) <= _SHORT:
        return
    cleaned = _clean(output)
    with _lock:
        _cleaned_ahead[output] = cleaned
        # A call that was cancelled meanwhile never asks.
        while len(_cleaned_ahead) > _MAX_AHEAD:
            del _cleaned_ahead[next(iter(_cleaned_ahead))]


def clean_for_model(output: str) -> str:
    """Removes colours, and all but the last state of each progress bar."""
    if len(output) > _SHORT:
        with _lock:
            ahead = _cleaned_ahead.pop(output, None)
        if ahead is not None:
            return ahead
    return _clean(output)


def _clean(output: str) -> str:
    text = output
    if "\x1b" in text:
        text = "".join(_ESCAPES.sub("", piece) for piece in _split_pieces(text, "\x1b"))
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        text = "".join(map(_keep_last_states, _split_pieces(text, "\n")))
    # As bytes, which takes a tenth of the time.
    return text.encode("utf-8", "surrogatepass").translate(None, _CONTROLS).decode("utf-8", "surrogatepass")


def _split_pieces(text: str, border: str) -> Iterator[str]:
    """Splits the text into pieces; each but the first begins with the border."""
    place = 0
    while place < len(text):
        end = text.find(border, place + _CHUNK_CHARS)
        yield text[place : end if end >= 0 else len(text)]
        place = end if end >= 0 else len(text)


def _keep_last_states(lines: str) -> str:
    return "\n".join([_keep_last_state(line) if "\r" in line else line for line in lines.split("\n")])


def _keep_last_state(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
