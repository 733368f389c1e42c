"""Which model the classifier asks."""

from ostler.protocol.shapes import Usage
from ostler.server.classifier import choose_small_model
from ostler.server.classifier.tables import load_table
from ostler.server.models.pricing import compute_cost, is_priced
from tests.support.tables import try_each

_ONE = Usage(input_tokens=1_000, output_tokens=1_000)


@try_each(
    ("main", "configured", "small"),
    [
        ("claude-sonnet-5", None, "claude-haiku-5-5"),
        ("claude-opus-5-5", None, "claude-haiku-5-5"),
        ("claude-sonnet-4-6", None, "claude-haiku-4-5"),
        ("claude-3-opus-20240229", None, "claude-haiku-4-5"),
        ("claude-haiku-4-5-20251001", None, "claude-haiku-4-5-20251001"),
        ("qwen3-coder", None, "qwen3-coder"),
        ("us.anthropic.claude-sonnet-5-v1:0", None, "us.anthropic.claude-sonnet-5-v1:0"),
        ("claude-sonnet-5", "my-small-one", "my-small-one"),
        ("qwen3-coder", "my-small-one", "my-small-one"),
        ("rehearsal", None, "rehearsal"),
        ("rehearsal", "my-small-one", "rehearsal"),
    ],
)
def test_the_small_model_is_configured_or_of_the_family_or_the_same(
    main: str, configured: str | None, small: str
) -> None:
    assert choose_small_model(main, configured) == small


def test_every_small_model_has_a_price_and_is_cheaper() -> None:
    dear = compute_cost("claude-sonnet-4-6", _ONE, {})
    assert dear is not None
    for row in load_table("model_choice.toml")["models"]:
        if "small" in row:
            cheap = compute_cost(row["small"], _ONE, {})
            assert is_priced(row["small"], {})
            assert cheap is not None
            assert cheap < dear
