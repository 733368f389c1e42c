"""The two kinds of model on the wire: what comes in, and what goes out."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StringConstraints

from ostler.protocol import times
from ostler.protocol.extent import count_chars
from ostler.protocol.limits import MAX_LINE_CHARS, MAX_METADATA_BYTES, MAX_TEXT_CHARS


class Wire(BaseModel):
    """A model of the wire. Its validator is built when it is first used, so that start-up stays short.

    For the same reason the docstrings under its fields are read by docstrings.py, for the documentation only.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    def encoded(self) -> bytes:
        """This model as JSON."""
        return self.__pydantic_serializer__.to_json(self)

    def changed(self, **fields: Any) -> Self:
        """The same with other values for some fields, which are right already; a fifth of what `model_copy` takes."""
        other = self.__class__.__new__(self.__class__)
        put = object.__setattr__
        put(other, "__dict__", {**self.__dict__, **fields})
        put(other, "__pydantic_fields_set__", self.__pydantic_fields_set__.union(fields))
        put(other, "__pydantic_extra__", None)
        put(other, "__pydantic_private__", None)
        return other


class Params(Wire):
    """What a client sends: unknown fields are errors, and `"5"` is no number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Shape(Wire):
    """What the daemon tells: a client ignores the fields that it does not know."""

    model_config = ConfigDict(extra="ignore")


class Nothing(Params):
    """No params at all."""


def _reject_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains a NUL character")
    return text


def _reject_control_chars(line: str) -> str:
    for char in line:
        if char < " " or char == "\x7f":
            raise ValueError(f"contains the control character {char!r}")
    return line


Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS), AfterValidator(_reject_nul)]
"""Words of any length and any number of lines."""

Line = Annotated[str, StringConstraints(max_length=MAX_LINE_CHARS), AfterValidator(_reject_control_chars)]
"""One line: a title, a name, a key."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LINE_CHARS), AfterValidator(_reject_control_chars)]
"""A line that says something."""

PathText = Annotated[str, StringConstraints(max_length=4096)]
"""A path as a person wrote it; whether it names a folder is for the daemon to find out."""

Usd = Annotated[str, StringConstraints(pattern=r"^\d{1,9}(\.\d{1,9})?$")]
"""Money as a decimal string: binary floats cannot hold a cent."""

Time = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
"""RFC 3339 in UTC with milliseconds."""


def _parse_moment(given: str) -> str:
    try:
        moment = datetime.fromisoformat(given)
        if moment.tzinfo is None:
            raise ValueError(given)
        return times.format_time(moment)
    except (ValueError, OverflowError):
        raise ValueError("must be a time with its zone, as 2026-01-31T12:00:00Z") from None


Moment = Annotated[str, StringConstraints(max_length=40), AfterValidator(_parse_moment)]
"""A time as a client gives it: RFC 3339, with or without milliseconds, in any zone; kept as `Time`."""


def _limit_entries(limit: int) -> BeforeValidator:
    """Bounds a collection before its members are looked at, each of which could be an error of its own."""

    def check(given: Any) -> Any:
        if isinstance(given, dict | list) and len(given) > limit:
            raise ValueError(f"has {len(given)} entries, and at most {limit} are taken")
        return given

    return BeforeValidator(check)


AtMost50 = _limit_entries(50)
AtMost1000 = _limit_entries(1000)


def _check_storable(value: dict[str, Any]) -> dict[str, Any]:
    # Imported here: most models never hold free JSON, and the check needs no encoder of its own.
    from pydantic_core import to_json  # noqa: PLC0415

    # Counted first: to encode megabytes only to refuse them would hold everybody up.
    if (chars := count_chars(value, 2 * MAX_METADATA_BYTES)) >= 2 * MAX_METADATA_BYTES:
        raise ValueError(f"has {chars} characters or more, and at most {MAX_METADATA_BYTES} bytes of JSON are kept")
    encoded = to_json(value)
    if len(encoded) > MAX_METADATA_BYTES:
        raise ValueError(f"is {len(encoded)} bytes as JSON, and at most {MAX_METADATA_BYTES} are kept")
    if b"\\u0000" in encoded:
        raise ValueError("contains a NUL character")
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(_check_storable)]
"""Free JSON that the daemon keeps for a client without reading it."""
