"""What requests cost."""

from decimal import Decimal

from pydantic import TypeAdapter

from ostler.protocol.config import Price
from ostler.protocol.shapes import Usage
from ostler.protocol.wire import Usd
from ostler.server.models.pricing import Window, compute_cost, find_window, format_usd, is_priced
from tests.support.tables import try_each

MILLION = 1_000_000


@try_each(
    ("model", "given", "taken"),
    [
        ("claude-sonnet-5", "2", "10"),
        ("claude-sonnet-4-5-20250929", "3", "15"),
        ("claude-opus-4-1-20250805", "15", "75"),
        ("claude-opus-4-20250514", "15", "75"),
        ("claude-opus-4-5", "5", "25"),
        ("claude-opus-4-8", "5", "25"),
        ("claude-opus-5", "5", "25"),
        ("claude-opus-5-5", "4", "20"),
        ("claude-haiku-4-5-20251001", "1", "5"),
        ("claude-3-5-haiku-20241022", "0.80", "4"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "3", "15"),
        ("claude-sonnet-4-5@20250929", "3", "15"),
        ("anthropic/claude-opus-5", "5", "25"),
        ("rehearsal", "0", "0"),
    ],
)
def test_a_million_tokens_each_way_cost_what_the_list_says(model: str, given: str, taken: str) -> None:
    assert compute_cost(model, Usage(input_tokens=MILLION), {}) == Decimal(given)
    assert compute_cost(model, Usage(output_tokens=MILLION), {}) == Decimal(taken)


def test_cached_tokens_have_their_own_prices() -> None:
    usage = Usage(input_tokens=10, output_tokens=20, cache_read_tokens=1000, cache_write_tokens=100)
    assert compute_cost("claude-opus-5", usage, {}) == Decimal("0.001675")


def test_the_price_of_an_unknown_model_is_unknown() -> None:
    assert compute_cost("llama-4", Usage(input_tokens=5), {}) is None
    assert compute_cost("my-claude-opus-5-copy", Usage(input_tokens=5), {}) is None
    assert find_window("llama-4") is None
    assert not is_priced("llama-4", {})


def test_configured_prices_stand_above_the_known_ones_and_fill_in_the_cache() -> None:
    configured = {
        "claude-opus-5": Price(input=Decimal(8), output=Decimal(16)),
        "llama-4": Price(input=Decimal(1), output=Decimal(2)),
    }
    usage = Usage(output_tokens=MILLION, cache_read_tokens=MILLION, cache_write_tokens=MILLION)
    assert compute_cost("claude-opus-5", usage, configured) == Decimal("26.8")
    assert compute_cost("llama-4", Usage(input_tokens=MILLION), configured) == 1
    assert is_priced("llama-4", configured)


def test_a_configured_cache_price_of_nothing_is_nothing() -> None:
    free = Price(input=Decimal(8), output=Decimal(16), cache_read=Decimal(0))
    assert compute_cost("x", Usage(cache_read_tokens=MILLION), {"x": free}) == 0


def test_a_long_request_costs_the_long_price_for_all_its_tokens() -> None:
    short = Usage(input_tokens=50_000, cache_read_tokens=50_000)
    long = Usage(input_tokens=50_000, cache_read_tokens=50_001)
    assert compute_cost("claude-haiku-5-5", short, {}) == Decimal("0.0055")
    assert compute_cost("claude-haiku-5-5", long, {}) == Decimal("0.0275000")


def test_a_model_newer_than_the_list_is_taken_as_one_of_its_family() -> None:
    assert compute_cost("claude-opus-9", Usage(input_tokens=MILLION), {}) == 5


@try_each(
    ("amount", "text"),
    [("0", "0"), ("0E-7", "0"), ("1E+3", "1000"), ("0.00000004", "0"), ("1.2345678", "1.2345678"), ("10.50", "10.5")],
)
def test_money_goes_over_the_wire_as_a_plain_decimal(amount: str, text: str) -> None:
    assert format_usd(Decimal(amount)) == text
    TypeAdapter(Usd).validate_python(format_usd(Decimal(amount)))


def test_windows_are_known() -> None:
    assert find_window("claude-sonnet-5") == Window(1_000_000, 128_000)
    assert find_window("claude-haiku-4-5") == Window(200_000, 64_000)
