"""Decides whether a sed script only prints: a small grammar of ours, in which nothing can run, write or read files.

What is not in it is refused: `e`, `w`, `r`, `R`, `W`, the flags `e` and `w` of `s`, labels, text to insert.
"""

import re
from typing import Final

_MAX_LENGTH: Final = 2_000
# A bracket that holds the sign which ends a pattern ends it for some versions of sed, and not for others: it is not in
# here.
_BODIES: Final = {
    sign: rf"(?:[^\\\n\[{re.escape(sign)}]|\\[^\nc]|\[\^?\]?(?:\[:[a-z]+:\]|[^\]\[\\\n{re.escape(sign)}])*\])"
    for sign in "/|,#@:_%+!;"
}
_LINE: Final = r"(?:[0-9]+(?:~[0-9]+)?|\$)"
_PATTERN: Final = rf"/{_BODIES['/']}+/[IM]{{0,2}}"
_ADDRESS: Final = re.compile(rf"(?:{_LINE}|{_PATTERN})(?:[ ]*,[ ]*(?:{_LINE}|{_PATTERN}|[+~][0-9]+))?[ ]*!?[ ]*")
_COMMAND: Final = re.compile(r"[pPdDnNhHgGx=](?![A-Za-z0-9])|[qQ](?![A-Za-z0-9])|l(?![A-Za-z0-9])")
_SUBSTITUTE: Final = {
    sign: re.compile(
        rf"s{re.escape(sign)}{body}*{re.escape(sign)}(?:[^\\\n{re.escape(sign)}]|\\[^\nc])*{re.escape(sign)}[gpiI0-9]*"
    )
    for sign, body in _BODIES.items()
}
_TRANSLATE: Final = re.compile(r"y/(?:[^\\\n/]|\\[^\nc])*/(?:[^\\\n/]|\\[^\nc])*/")
_BETWEEN: Final = re.compile(r"[ \t]*(?:[;\n][ \t;\n]*)?")
_END: Final = re.compile(r"[ \t]*(?:[;\n}]|\Z)")


def prints_only(script: str) -> bool:
    """Whether a script does nothing but print what it is given."""
    if len(script) > _MAX_LENGTH or not script.strip() or script.startswith("#"):
        return False
    place, braces = 0, 0
    while place < len(script):
        place = _find_end(_BETWEEN, script, place)
        if place >= len(script):
            break
        if script[place] == "}":
            braces -= 1
            place += 1
            if braces < 0 or not _END.match(script, place):
                return False
            continue
        place = _find_end(_ADDRESS, script, place)
        if script[place : place + 1] == "{":
            braces += 1
            place += 1
            continue
        end = _find_command_end(script, place)
        if end is None or not _END.match(script, end):
            return False
        place = end
    return braces == 0


def _find_command_end(script: str, place: int) -> int | None:
    sign = script[place + 1 : place + 2]
    for expected in (_COMMAND, _TRANSLATE, _SUBSTITUTE.get(sign)):
        if expected is not None and (found := expected.match(script, place)):
            return found.end()
    return None


def _find_end(expected: re.Pattern[str], script: str, place: int) -> int:
    found = expected.match(script, place)
    return found.end() if found else place
