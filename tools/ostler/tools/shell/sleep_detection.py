"""Commands that only wait: `sleep` in bash, `Start-Sleep` in PowerShell, in all their spellings."""

import re
from collections.abc import Sequence
from typing import Final

from ostler.tools.commands import Part, read_command, unwrapped
from ostler.tools.commands.safety.wrappers import SHELLS

_NUMBER: Final = r"(?:0x[0-9a-f]+|\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)(?:kb|mb|gb|tb|pb|[uyslnd]{1,2})?"
_TIME_SPAN: Final = r"(?:\d+\.)?\d+:\d+(?::\d+(?:\.\d+)?)?"
_QUOTED: Final = "['\"]?"
_SLEEP: Final = re.compile(
    r"(?:\s|#[^\n]*+\n|<#(?:[^#]|#(?!>))*+#>)*+"  # blanks and comments
    rf"(?:[&.]\s*+)?{_QUOTED}(?:microsoft\.powershell\.utility\\)?(?:start-sleep|sleep){_QUOTED}"
    rf"[ \t]++(?:-(?P<parameter>[a-z]++)(?:[ \t]*+:[ \t]*+|[ \t]++))?{_QUOTED}"
    rf"(?P<value>{_TIME_SPAN}|{_NUMBER}|\$?\(?\[timespan\][^;|\n]*|\(new-timespan[^;|\n]*){_QUOTED}\)?"
    r"(?:[ \t]++[0-9*]?>{1,2}+(?:&1|[ \t]*+[^\s;|&<>()#]++))*+"  # where its output goes
    r"[ \t]*+(?:(?<=[ \t])#[^\n]*+)?(?P<end>$|;|&&|\|\||\||\r?\n)",
    re.IGNORECASE,
)
_SPAN_PARTS: Final = re.compile(
    r"(?:-|from)(?P<unit>milliseconds|ms|seconds|s|minutes|m|hours|h|days|d)[a-z]*[\s:(]*(?P<number>\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_UNITS: Final = {"mi": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES: Final = {"kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40, "pb": 2**50}
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


def seconds_of_sleep(command: str) -> tuple[float, bool] | None:
    """How long the first statement waits, and whether that is all; null where it does something else first."""
    found = _SLEEP.match(command)
    if found is None:
        return None
    seconds = _seconds((found["parameter"] or "").lower(), found["value"].lower())
    return None if seconds is None else (seconds, not command[found.end() :].strip())


def _seconds(parameter: str, value: str) -> float | None:
    if "timespan" in value:
        return sum(_span_unit(part["unit"].lower()) * float(part["number"]) for part in _SPAN_PARTS.finditer(value))
    if ":" in value:
        return _span(value)
    number = _number(value)
    # By any unambiguous beginning, and by the short names that the parameters have beside.
    if not parameter or "seconds".startswith(parameter):
        return number
    if "milliseconds".startswith(parameter) or parameter == "ms":
        return number / 1000
    if "duration".startswith(parameter) or parameter == "ts":
        return number * 86400  # a number alone is days
    return None


def _span(value: str) -> float:
    days, _, clock = (
        value.rpartition(".") if value.count(".") and value.find(".") < value.find(":") else ("", "", value)
    )
    hours, minutes, *rest = clock.split(":")
    return int(days or 0) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(rest[0] if rest else 0)


def _number(value: str) -> float:
    if value.startswith("0x"):
        return float(int(value.rstrip("uylns"), 16))
    size = _SIZES.get(value[-2:], 1)
    digits = re.match(r"[\d.]+(?:e[+-]?\d+)?", value)
    return float(digits[0]) * size if digits else 0.0


def _span_unit(unit: str) -> float:
    return _UNITS["ms"] if unit.startswith(("mi", "ms")) and not unit.startswith("min") else _UNITS[unit[0]]


def long_sleep(command: str) -> bool:
    """Whether the first thing it does is to wait for two seconds or more."""
    if "sleep" not in command:  # most commands: they need not be read for this
        return False
    first = next(iter(read_command(command).parts), None)
    if first is None or not first.inside.isdisjoint(_NOT_FIRST):
        return False
    found = unwrapped(first)
    # What runs first inside it stands last.
    return _runs_at_once(found) and _sleep_seconds(found[-1]) >= 2


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


def _sleep_seconds(part: Part) -> float:
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
