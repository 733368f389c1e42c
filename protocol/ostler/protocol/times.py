"""Formatting of times for the wire: RFC 3339 in UTC with milliseconds."""

import time
from datetime import UTC, datetime, timedelta

_second: tuple[int, str] = (-1, "")
"""Cache: the last second that was formatted, and its text; a busy daemon formats the same one thousands of times."""


def now() -> str:
    """This moment, RFC 3339 in UTC with milliseconds; such strings sort as the times do."""
    global _second  # noqa: PLW0603 - replaced as a whole, so that threads need no lock
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    known = _second
    if known[0] != seconds:
        known = _second = (seconds, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)))
    return f"{known[1]}.{milliseconds:03}Z"


def now_after(earlier: str) -> str:
    """This moment, or the millisecond after an earlier one where that is not over yet."""
    moment = now()
    if moment > earlier:
        return moment
    return format_time(datetime.fromisoformat(earlier) + timedelta(milliseconds=1))


def format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
