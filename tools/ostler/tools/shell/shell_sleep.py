"""`sleep`, however it is spelled: by the words that the shell would see. A long command is to be read in a thread."""

import re
from collections.abc import Sequence
from typing import Final

from ostler.tools.commands import Part, read_command, unwrapped
from ostler.tools.commands.safety.wrappers import SHELLS

_AT_ONCE: Final = SHELLS | {
    "command", "builtin", "exec", "eval", "time", "env", "timeout", "nice", "ionice", "chrt", "nohup", "setsid",
    "stdbuf", "sudo", "doas", "busybox",
}  # fmt: skip
"""What begins with the command that it runs; others, as `trap` and `find`, do that later or perhaps."""
_NOT_FIRST: Final = frozenset({"background", "function", "substitution", "loop"})
"""Where a part stands that nobody waits for, or that is the pause of something which looks again and again."""
_TIME: Final = re.compile(
    r"\+?(?:(?P<hex>0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?))(?P<unit>[smhd]?)",
    re.IGNORECASE,
)
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def long_sleep(command: str) -> bool:
    """Whether the first thing it does is to wait for two seconds or more."""
    if "sleep" not in command:  # most commands: they need not be read for this
        return False
    first = next(iter(read_command(command).parts), None)
    if first is None or not first.inside.isdisjoint(_NOT_FIRST):
        return False
    found = unwrapped(first)
    # What runs first inside it stands last.
    return _runs_at_once(found) and _seconds(found[-1]) >= 2


def only_sleeps(command: str) -> bool:
    """Whether it does nothing but wait, for whatever time."""
    if "sleep" not in command:
        return False
    parts = read_command(command).parts
    return bool(parts) and all(_only_sleeps(unwrapped(part)) for part in parts)


def _only_sleeps(found: Sequence[Part]) -> bool:
    names = {_name(part) for part in found}
    return "sleep" in names and names - {"sleep"} <= _AT_ONCE


def _runs_at_once(found: Sequence[Part]) -> bool:
    return len(found) == 1 or _name(found[0]) in _AT_ONCE


def _name(part: Part) -> str | None:
    return part.words[0] if part.words else None


def _seconds(part: Part) -> float:
    """Of a `sleep`; none where it is something else, or only the run decides."""
    words = part.literal_words
    if not words or words[0] != "sleep":
        return 0.0
    times = [_TIME.fullmatch(word) for word in words[1:] if word != "--"]
    return sum(_time(each) for each in times if each is not None) if None not in times else 0.0


def _time(found: re.Match[str]) -> float:
    try:
        number = float.fromhex(found["hex"]) if found["hex"] else float(found["number"])
    except OverflowError:
        number = float("inf")
    return number * _SECONDS[found["unit"].lower()]
