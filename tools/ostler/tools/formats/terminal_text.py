"""Text that was printed for a terminal, as a model reads it: no escapes, and the last state of each progress bar."""

import re
import threading
from collections.abc import Iterator
from typing import Final

# Nothing here goes back over what it has matched, which would cost time.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]{0,250}+[ -/]{0,250}+[@-~]"  # colours and cursor movements
    r"|\x1b\][^\x07\x1b]*+(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b[PX^_][^\x1b]*+(?:\x1b\\)?"  # strings for the terminal
    r"|\x1b[ -/]{0,250}+[0-~]"  # the rest
)


_CONTROLS: Final = bytes({*range(0x20), 0x7F} - {*b"\t\n"})


_AT_ONCE: Final = 16 * 1024
"""Characters that are cleaned in one call, during which nobody else gets the interpreter's lock."""


_SHORT: Final = 16 * 1024
"""Characters that are cleaned within two milliseconds, whatever they are."""


_MAX_AHEAD: Final = 16


_cleaned_ahead: Final[dict[str, str]] = {}


_lock: Final = threading.Lock()


def clean_ahead(output: str) -> None:
    """For the thread that read a long output: the event loop, which then asks for it once, finds it cleaned."""
    if len(output) <= _SHORT:
        return
    cleaned = _cleaned(output)
    with _lock:
        _cleaned_ahead[output] = cleaned
        # A call that was cancelled meanwhile never asks.
        while len(_cleaned_ahead) > _MAX_AHEAD:
            del _cleaned_ahead[next(iter(_cleaned_ahead))]


def for_the_model(output: str) -> str:
    """Without colours, and with only the last state of each progress bar."""
    if len(output) > _SHORT:
        with _lock:
            ahead = _cleaned_ahead.pop(output, None)
        if ahead is not None:
            return ahead
    return _cleaned(output)


def _cleaned(output: str) -> str:
    text = output
    if "\x1b" in text:
        text = "".join(_ESCAPES.sub("", piece) for piece in _pieces(text, "\x1b"))
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        text = "".join(map(_last_states, _pieces(text, "\n")))
    # As bytes, which takes a tenth of the time.
    return text.encode("utf-8", "surrogatepass").translate(None, _CONTROLS).decode("utf-8", "surrogatepass")


def _pieces(text: str, border: str) -> Iterator[str]:
    """All of it in order; each piece but the first begins with the border."""
    place = 0
    while place < len(text):
        end = text.find(border, place + _AT_ONCE)
        yield text[place : end if end >= 0 else len(text)]
        place = end if end >= 0 else len(text)


def _last_states(lines: str) -> str:
    return "\n".join([_last_state(line) if "\r" in line else line for line in lines.split("\n")])


def _last_state(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
