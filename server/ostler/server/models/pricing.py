"""Prices of models (prices.toml, overridden by config.toml), their context windows, and their tool features."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from ostler.protocol.config import Price
from ostler.protocol.patterns import compile_later
from ostler.protocol.shapes import Usage

DEFAULT_WINDOW: Final = 200_000
"""Tokens of the window of a model that is not in the table."""
_MILLION: Final = Decimal(1_000_000)
_SMALLEST: Final = Decimal("0.0000001")
_CACHE_READ: Final = Decimal("0.1")
_CACHE_WRITE: Final = Decimal("1.25")
# `us.anthropic.claude-…-v1:0` (Bedrock), `claude-…@20250929` (Vertex), `anthropic/claude-…` (proxies).
_RESELLER: Final = compile_later(r"^(?:[a-z]{2,6}\.)?anthropic[./](?=claude-)")


@dataclass(frozen=True, slots=True)
class Window:
    """How much a model takes and gives, in tokens."""

    context: int
    max_output: int


@dataclass(frozen=True, slots=True)
class _ModelEntry:
    pattern: str
    price: Price
    window: Window
    long_from: int | None = None
    long_price: Price | None = None


def compute_cost(model: str, usage: Usage, configured: Mapping[str, Price]) -> Decimal | None:
    """What one request cost; None where the price of the model is not known."""
    price = _find_price(model, usage, configured)
    if price is None:
        return None
    cache_read, cache_write = find_cache_prices(price)
    total = (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + usage.cache_read_tokens * cache_read
        + usage.cache_write_tokens * cache_write
    )
    return (total / _MILLION).quantize(_SMALLEST, ROUND_HALF_EVEN)


def compute_search_cost(model: str, searches: int) -> Decimal:
    """What the maker asks for searches of its API beside their tokens; nothing where the model is another's."""
    return Decimal(_load_data()["search_usd"]) * searches if knows_search(model) else Decimal(0)


def find_cache_prices(price: Price) -> tuple[Decimal, Decimal]:
    """What tokens cost that are read from the cache, and that are written to it."""
    return (
        price.input * _CACHE_READ if price.cache_read is None else price.cache_read,
        price.input * _CACHE_WRITE if price.cache_write is None else price.cache_write,
    )


def find_price(model: str, configured: Mapping[str, Price]) -> Price | None:
    """The price of requests that are not long; None where it is not known."""
    return _find_price(model, Usage(), configured)


def is_priced(model: str, configured: Mapping[str, Price]) -> bool:
    """Can a budget be kept with this model?"""
    return model in configured or _find_entry(model) is not None


def find_window(model: str) -> Window | None:
    """None for a model that is not in the table."""
    entry = _find_entry(model)
    return entry.window if entry else None


def knows_extras(model: str) -> bool:
    """Whether the model takes tool extras (`strict`, `input_examples`); models of other makers do not."""
    name = _RESELLER.sub("", model)
    return name.startswith("claude-") and not any(
        fnmatchcase(name, pattern) for pattern in _load_data()["without_extras"]
    )


def knows_compaction(model: str) -> bool:
    """Whether the maker's API summarises conversations of this model itself."""
    name = _RESELLER.sub("", model)
    return any(fnmatchcase(name, pattern) for pattern in _load_data()["with_compaction"])


def knows_search(model: str) -> bool:
    """Whether the maker's API searches the web for this model."""
    name = _RESELLER.sub("", model)
    return name.startswith("claude-") and not any(
        fnmatchcase(name, pattern) for pattern in _load_data()["without_search"]
    )


def format_usd(amount: Decimal) -> str:
    """As it goes over the wire: a plain decimal without an exponent or zeros at its end."""
    text = f"{amount.quantize(_SMALLEST, ROUND_HALF_EVEN):f}"
    return text.rstrip("0").rstrip(".")


def _find_price(model: str, usage: Usage, configured: Mapping[str, Price]) -> Price | None:
    if model in configured:
        return configured[model]
    entry = _find_entry(model)
    if entry is None:
        return None
    sent = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    is_long = entry.long_from is not None and sent > entry.long_from
    return entry.long_price if is_long else entry.price


@lru_cache(maxsize=256)
def _find_entry(model: str) -> _ModelEntry | None:
    name = _RESELLER.sub("", model)
    return next((entry for entry in _load_table() if fnmatchcase(name, entry.pattern)), None)


@cache
def _load_table() -> tuple[_ModelEntry, ...]:
    return tuple(_parse_row(row) for row in _load_data()["models"])


@cache
def _load_data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("prices.toml").read_text("utf-8"))


def _parse_row(row: dict[str, Any]) -> _ModelEntry:
    long = row.get("long")
    return _ModelEntry(
        row["pattern"],
        _parse_price(row),
        Window(row["window"], row["max_output"]),
        row.get("long_from"),
        _parse_price(long) if long else None,
    )


def _parse_price(row: dict[str, Any]) -> Price:
    return Price.model_validate({name: row[name] for name in ("input", "output", "cache_read", "cache_write")})
