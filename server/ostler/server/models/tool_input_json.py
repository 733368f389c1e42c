"""Parses the JSON that a model wrote as a call's input, and explains to the model why an input cannot be used."""

from typing import Any, Final

import orjson

from ostler.protocol.errors import InvalidRequest, ParseError
from ostler.server.models.long_events import MAX_INPUT_VALUES
from ostler.server.rpc.bounded_json import check_limits
from ostler.tools.text import cut_text_with_count

_SHOWN_CHARS: Final = 200
"""How much of an input that cannot be used the model is shown."""


def parse_tool_input(text: str) -> tuple[Any, str | None]:
    """What the JSON says, None where it is none; and the limit that it is over, which is known before it is parsed."""
    raw = text.encode("utf-8", "surrogatepass")  # half a character is for the parser to refuse
    try:
        check_limits(raw, MAX_INPUT_VALUES)
        return orjson.loads(raw), None
    except (ParseError, InvalidRequest) as over:
        return None, over.message
    except orjson.JSONDecodeError:
        return None, None


def describe_unusable(raw: str, over_limit: str | None) -> str:
    """Why nothing can be run of it, for the model."""
    shown = cut_text_with_count(raw, _SHOWN_CHARS)
    if over_limit is not None:
        return f"The input is more than can be read, so nothing was run. {over_limit} It was: {shown}"
    return f"The input is not a JSON object, so nothing was run. It was: {shown}"
