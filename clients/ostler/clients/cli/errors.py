"""Error messages for the person who typed the command, and the exit code that says whose mistake it is."""

from typing import TYPE_CHECKING, Final

from ostler.clients.cli.exit_codes import FAILED, USAGE
from ostler.protocol.errors import (
    BadFolder,
    InvalidParams,
    ModeForbidden,
    ParseError,
    ProtocolError,
    SessionNotFound,
    TaskNotFound,
)

if TYPE_CHECKING:
    from pydantic import ValidationError

USAGE_ERRORS: Final = (InvalidParams, ParseError, BadFolder, ModeForbidden)
"""The errors with which a daemon refuses wrong usage."""
_LIST_HINTS: Final[dict[type[ProtocolError], str]] = {
    SessionNotFound: "`ostler sessions --all` lists what there is.",
    TaskNotFound: "`ostler tasks --all` lists what there is.",
}
_OPTION_NAMES: Final = {"input": "the prompt", "output_schema": "--schema", "timeout_ms": "--timeout"}
"""Where the wire has another name than the command."""


def describe_error(error: ProtocolError) -> str:
    """What the daemon says, and where to look."""
    if isinstance(error, InvalidParams):
        return error.message.removeprefix("Invalid params: ")
    hint = _LIST_HINTS.get(type(error))
    return f"{error.message} {hint}" if hint else error.message


def choose_exit_code(error: ProtocolError) -> int:
    return USAGE if isinstance(error, USAGE_ERRORS) else FAILED


def describe_invalid_fields(wrong: "ValidationError") -> str:
    """What is wrong with parameters, found out before they were sent."""
    return "; ".join(
        f"{_format_option(str(error['loc'][0]))}: {error['msg']}" for error in wrong.errors() if error["loc"]
    )


def _format_option(field: str) -> str:
    return _OPTION_NAMES.get(field, f"--{field.replace('_', '-')}")
