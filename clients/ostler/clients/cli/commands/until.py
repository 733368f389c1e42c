"""When something ends, as people say it."""

import re
from datetime import datetime, timedelta
from typing import Final

import typer

_SPAN: Final = re.compile(r"(\d{1,6})\s*([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment(text: str) -> str:
    """A span from now like `30m`, or a time of the clock here like `2026-12-31T18:00`, as the wire writes it."""
    from ostler.protocol import times

    now = datetime.now().astimezone()
    span = _SPAN.fullmatch(text.strip())
    try:
        ends = now + timedelta(**{_UNITS[span[2]]: int(span[1])}) if span else datetime.fromisoformat(text.strip())
        written = times.at(ends)
    except (ValueError, OverflowError) as wrong:
        raise typer.BadParameter(f"--until {text}: neither a span like 30m, 2h or 7d nor a time") from wrong
    if written <= times.at(now):
        raise typer.BadParameter(f"--until {text}: that is over already")
    return written
