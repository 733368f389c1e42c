"""Times as the wire writes them."""

from datetime import UTC, datetime


def now() -> str:
    """This moment, RFC 3339 in UTC with milliseconds; such strings sort as the times do."""
    return at(datetime.now(UTC))


def at(moment: datetime) -> str:
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"
