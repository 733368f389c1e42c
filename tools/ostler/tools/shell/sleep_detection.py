"""Detects commands that only wait: `sleep` in bash, `Start-Sleep` in PowerShell, in all their spellings."""

import re
from collections.abc import Sequence
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools import commands
from ostler.tools.commands import SimpleCommand, parse_command
from ostler.tools.commands.inner.shell_lines import SHELLS

_NUMBER: Final = r"(?:0x[0-9a-f]+|\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)(?:kb|mb|gb|tb|pb|[uyslnd]{1,2})?"
_TIME_SPAN: Final = r"(?:\d+\.)?\d+:\d+(?::\d+(?:\.\d+)?)?"
_QUOTED: Final = "['\"]?"
_SLEEP: Final = compile_later(
    r"(?>(?:\s|#[^\n]*+\n|<#(?>(?:[^#]|#(?!>))*)#>)*)"  # blanks and comments
    rf"(?:[&.]\s*+)?{_QUOTED}(?:microsoft\.powershell\.utility\\)?(?:start-sleep|sleep){_QUOTED}"
    rf"[ \t]++(?:-(?P<parameter>[a-z]++)(?:[ \t]*+:[ \t]*+|[ \t]++))?{_QUOTED}"
    rf"(?P<value>{_TIME_SPAN}|{_NUMBER}|\$?\(?\[timespan\][^;|\n]*|\(new-timespan[^;|\n]*){_QUOTED}\)?"
    r"(?>(?:[ \t]++[0-9*]?>{1,2}+(?:&1|[ \t]*+[^\s;|&<>()#]++))*)"  # where its output goes
    r"[ \t]*+(?:(?<=[ \t])#[^\n]*+)?(?P<end>$|;|&&|\|\||\||\r?\n)",
    re.IGNORECASE,
)
_SPAN_PARTS: Final = compile_later(
    r"(?:-|from)(?P<unit>milliseconds|ms|seconds|s|minutes|m|hours|h|days|d)[a-z]*[\s:(]*(?P<number>\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_UNITS: Final = {"mi": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES: Final = {"kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40, "pb": 2**50}
_WRAPPERS: Final = SHELLS | {
    "command", "builtin", "exec", "eval", "time", "env", "timeout", "nice", "ionice", "chrt", "nohup", "setsid",
    "stdbuf", "sudo", "doas", "busybox",
}  # fmt: skip
"""Commands that at once run the command given to them; others, as `trap` and `find`, do that later or perhaps."""
_NOT_WAITED_FOR: Final = frozenset({"background", "function", "substitution", "loop"})
"""Where a part is that the command does not wait for, or that is the pause in a polling loop."""
_TIME: Final = compile_later(
    r"\+?(?:(?P<hex>0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?))(?P<unit>[smhd]?)",
    re.IGNORECASE,
)
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_powershell_sleep(command: str) -> tuple[float, bool] | None:
    """How long the first statement waits, and whether that is all; null where it does something else first."""
    found = _SLEEP.match(command)
    if found is None:
        return None
    seconds = _compute_seconds((found["parameter"] or "").lower(), found["value"].lower())
    return None if seconds is None else (seconds, not command[found.end() :].strip())


def _compute_seconds(parameter: str, value: str) -> float | None:
    if "timespan" in value:
        return sum(
            _find_unit_seconds(part["unit"].lower()) * float(part["number"]) for part in _SPAN_PARTS.finditer(value)
        )
    if ":" in value:
        return _parse_time_span(value)
    number = _parse_number(value)
    # By any unambiguous beginning, and by the short names that the parameters have beside.
    if not parameter or "seconds".startswith(parameter):
        return number
    if "milliseconds".startswith(parameter) or parameter == "ms":
        return number / 1000
    if "duration".startswith(parameter) or parameter == "ts":
        return number * 86400  # a number alone is days
    return None


def _parse_time_span(value: str) -> float:
    days, _, clock = (
        value.rpartition(".") if value.count(".") and value.find(".") < value.find(":") else ("", "", value)
    )
    hours, minutes, *rest = clock.split(":")
    return int(days or 0) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(rest[0] if rest else 0)


def _parse_number(value: str) -> float:
    if value.startswith("0x"):
        return float(int(value.rstrip("uylns"), 16))
    size = _SIZES.get(value[-2:], 1)
    digits = re.match(r"[\d.]+(?:e[+-]?\d+)?", value)
    return float(digits[0]) * size if digits else 0.0


def _find_unit_seconds(unit: str) -> float:
    return _UNITS["ms"] if unit.startswith(("mi", "ms")) and not unit.startswith("min") else _UNITS[unit[0]]


def begins_with_sleep(command: str) -> bool:
    """Whether the first thing it does is to wait for two seconds or more."""
    if "sleep" not in command:  # most commands: they need not be parsed for this
        return False
    first = next(iter(parse_command(command).parts), None)
    if first is None or not first.inside.isdisjoint(_NOT_WAITED_FOR):
        return False
    found = commands.unwrap(first)
    # The innermost command, which runs first, is the last of the list.
    return _runs_at_once(found) and _compute_sleep(found[-1]) >= 2


def only_sleeps(command: str) -> bool:
    """Whether it does nothing but wait, for whatever time."""
    if "sleep" not in command:
        return False
    parts = parse_command(command).parts
    return bool(parts) and all(_only_sleeps(commands.unwrap(part)) for part in parts)


def _only_sleeps(found: Sequence[SimpleCommand]) -> bool:
    names = {_find_program(part) for part in found}
    return "sleep" in names and names - {"sleep"} <= _WRAPPERS


def _runs_at_once(found: Sequence[SimpleCommand]) -> bool:
    return len(found) == 1 or _find_program(found[0]) in _WRAPPERS


def _find_program(part: SimpleCommand) -> str | None:
    return part.words[0] if part.words else None


def _compute_sleep(part: SimpleCommand) -> float:
    """How long a `sleep` takes; 0 where it is something else, or is only known when it runs."""
    words = part.literal_words
    if not words or words[0] != "sleep":
        return 0.0
    times = [_TIME.fullmatch(word) for word in words[1:] if word != "--"]
    return sum(_parse_time(each) for each in times if each is not None) if None not in times else 0.0


def _parse_time(found: re.Match[str]) -> float:
    try:
        number = float.fromhex(found["hex"]) if found["hex"] else float(found["number"])
    except OverflowError:
        number = float("inf")
    return number * _SECONDS[found["unit"].lower()]
