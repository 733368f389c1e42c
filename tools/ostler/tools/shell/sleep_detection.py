"""`Start-Sleep` in all its spellings."""

import re
from typing import Final

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
