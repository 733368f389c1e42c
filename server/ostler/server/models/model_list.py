"""Which models there are: as a provider lists them, and as our own table knows them."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

MAX_LIST_BYTES: Final = 1024 * 1024
_MAX_MODELS: Final = 1000
_MAX_NAME_CHARS: Final = 200
_MAX_TOKENS: Final = 10**9


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model by name, with what is said of it."""

    id: str
    display_name: str
    context_window: int | None = None
    max_output: int | None = None


def parse_offered(body: bytes) -> Sequence[OfferedModel]:
    """The answer to `GET /v1/models`; a ValueError says why it is none."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ValueError("it is not JSON") from None
    rows = found.get("data") if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise ValueError("it has no list `data`")
    models = [model for row in rows[:_MAX_MODELS] if (model := _parse_row(row)) is not None]
    return list({model.id: model for model in models}.values())


def _parse_row(row: Any) -> OfferedModel | None:
    """Nothing where it has no name, or is known to be no model any more."""
    if not isinstance(row, dict) or row.get("lifecycle") == "retired":
        return None
    name = _read_name(row.get("id"))
    if name is None:
        return None
    return OfferedModel(
        name,
        _read_name(row.get("display_name")) or name,
        _read_tokens(row.get("max_input_tokens")),
        _read_tokens(row.get("max_tokens")),
    )


def _read_name(value: Any) -> str | None:
    is_name = isinstance(value, str) and 0 < len(value) <= _MAX_NAME_CHARS and value.isprintable()
    return value if is_name else None


def _read_tokens(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_TOKENS else None


@cache
def list_known_models() -> Sequence[OfferedModel]:
    """Those that our table names; their windows and prices are found by `pricing`, as those of any other."""
    text = Path(__file__).with_name("prices.toml").read_text("utf-8")
    return [OfferedModel(row["id"], row["name"]) for row in tomllib.loads(text)["known"]]
