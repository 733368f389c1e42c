"""Times as the wire writes them."""

from datetime import UTC, datetime


def now() -> str:
    """This moment, RFC 3339 in UTC with milliseconds; such strings sort as the times do."""
    return _written(datetime.now(UTC))


def at(moment: datetime) -> str:
    return _written(moment.astimezone(UTC))


def _written(utc: datetime) -> str:
    return utc.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
