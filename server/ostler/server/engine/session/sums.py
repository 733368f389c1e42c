"""Tokens and money, added up."""

from decimal import Decimal

from ostler.protocol.shapes import Usage
from ostler.server.models.pricing import usd


def added(total: Usage, more: Usage) -> Usage:
    known = total.cost_usd is not None and more.cost_usd is not None
    return Usage(
        input_tokens=total.input_tokens + more.input_tokens,
        output_tokens=total.output_tokens + more.output_tokens,
        cache_read_tokens=total.cache_read_tokens + more.cache_read_tokens,
        cache_write_tokens=total.cache_write_tokens + more.cache_write_tokens,
        cost_usd=usd(Decimal(total.cost_usd or 0) + Decimal(more.cost_usd or 0)) if known else None,
    )
