"""What is wrong, in words for the person who typed it, and the exit code that says whose mistake it is."""

from typing import TYPE_CHECKING, Final

from ostler.clients.cli.exit_codes import FAILED, USAGE
from ostler.protocol.errors import InvalidParams, ParseError, ProtocolError, SessionNotFound, TaskNotFound

if TYPE_CHECKING:
    from pydantic import ValidationError

ASKED_WRONG: Final = (InvalidParams, ParseError)
"""How a daemon refuses what was asked in a wrong way: that is wrong usage, whoever finds it out."""
_LISTS: Final[dict[type[ProtocolError], str]] = {
    SessionNotFound: "`ostler sessions --all` lists what there is.",
    TaskNotFound: "`ostler tasks --all` lists what there is.",
}
_OPTIONS: Final = {"input": "the prompt", "output_schema": "--schema", "timeout_ms": "--timeout"}
"""Where the wire has another name than the command."""


def in_words(error: ProtocolError) -> str:
    """What the daemon says, and where to look."""
    if isinstance(error, InvalidParams):
        return error.message.removeprefix("Invalid params: ")
    hint = _LISTS.get(type(error))
    return f"{error.message} {hint}" if hint else error.message


def exit_code(error: ProtocolError) -> int:
    return USAGE if isinstance(error, ASKED_WRONG) else FAILED


def of_fields(wrong: "ValidationError") -> str:
    """What is wrong with what was given, found out before it was sent."""
    return "; ".join(f"{_option(str(error['loc'][0]))}: {error['msg']}" for error in wrong.errors() if error["loc"])


def _option(field: str) -> str:
    return _OPTIONS.get(field, f"--{field.replace('_', '-')}")
