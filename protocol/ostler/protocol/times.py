"""Times as the wire writes them."""

import time
from datetime import UTC, datetime

_second: tuple[int, str] = (-1, "")
"""The last second that was written, and how: a busy daemon writes the same one thousands of times."""


def now() -> str:
    """This moment, RFC 3339 in UTC with milliseconds; such strings sort as the times do."""
    global _second  # noqa: PLW0603 - replaced as a whole, so that threads need no lock
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    known = _second
    if known[0] != seconds:
        known = _second = (seconds, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)))
    return f"{known[1]}.{milliseconds:03}Z"


def at(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
