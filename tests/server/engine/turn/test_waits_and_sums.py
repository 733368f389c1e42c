"""Waits before retries, sums of usage, and the limits and previews of results."""

from ostler.protocol.config import Model
from ostler.protocol.ids import ResultId
from ostler.protocol.shapes import Usage
from ostler.server.engine.calls.result_limits import build_placeholder, cut_fields, resolve_limit
from ostler.server.engine.session.usage import add_usage
from ostler.server.engine.turn.retry_policy import compute_retry_wait, describe_failure
from ostler.server.models.provider import ModelFailure
from ostler.tools.files.read import Read
from ostler.tools.search.grep import Grep
from ostler.tools.shell.bash import Bash
from tests.support.tables import try_each

SETTINGS = Model(first_wait_seconds=1, max_wait_seconds=60)


def compute_waits(failure: ModelFailure, attempt: int) -> list[float]:
    return [compute_retry_wait(attempt, failure, SETTINGS) for _ in range(50)]


@try_each(("attempt", "most"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (50, 60), (100_000, 60)])
def test_waits_are_doubled_up_to_a_bound_and_spread(attempt: int, most: float) -> None:
    found = compute_waits(ModelFailure("server", "x"), attempt)
    assert max(found) <= most
    assert min(found) >= 0.75 * most
    assert len(set(found)) > 1


def test_what_the_provider_asks_for_is_the_least() -> None:
    failure = ModelFailure("rate_limited", "x", retry_after_ms=5000)
    assert set(compute_waits(failure, 1)) == {5.0}
    assert min(compute_waits(failure, 7)) >= 45


def test_nobody_waits_for_days() -> None:
    assert max(compute_waits(ModelFailure("rate_limited", "x", retry_after_ms=10**9), 1)) <= 600


def test_a_failure_is_described_by_what_is_known() -> None:
    assert describe_failure(ModelFailure("server", "broken")) == {
        "code": "model_error",
        "kind": "server",
        "message": "broken",
    }
    known = describe_failure(ModelFailure("server", "broken", status=500, request_id="req_1"))
    assert (known["status"], known["request_id"]) == (500, "req_1")
    assert "retry_after_ms" not in known


def test_usage_adds_up_and_an_unknown_price_stays_unknown() -> None:
    one = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4, cost_usd="0.1")
    total = add_usage(one, one.model_copy(update={"cost_usd": "0.2"}))
    assert total == Usage(input_tokens=2, output_tokens=4, cache_read_tokens=6, cache_write_tokens=8, cost_usd="0.3")
    assert add_usage(one, one.model_copy(update={"cost_usd": None})).cost_usd is None
    assert add_usage(one.model_copy(update={"cost_usd": None}), one).cost_usd is None


def test_a_tool_has_its_own_limit_or_none() -> None:
    assert resolve_limit(Bash()) == 30_000
    assert resolve_limit(Read()) is None
    assert resolve_limit(Grep()) is not None


def test_a_long_result_is_shown_from_its_start_up_to_a_newline() -> None:
    lines = "".join(f"line {n}\n" for n in range(10_000))
    shown = build_placeholder(Grep(), lines, ResultId("r_1"))["text"]
    assert shown.startswith("<persisted-output>\nOutput too large (")
    assert "result://r_1" in shown
    assert shown.endswith("\n</persisted-output>")
    preview = shown.split(":\n", 1)[1]
    assert preview.startswith("line 0\nline 1\n")
    assert all(line.startswith("line ") for line in preview.splitlines()[:-2])
    assert 1000 <= len(preview) <= 2100


def test_a_long_result_without_newlines_is_cut_at_its_size() -> None:
    shown = build_placeholder(Grep(), "x" * 100_000, ResultId("r_1"))["text"]
    assert shown.count("x") == 2000


def test_a_shells_result_shows_its_first_and_its_last_lines() -> None:
    lines = "".join(f"line {n}\n" for n in range(10_000))
    shown = build_placeholder(Bash(), lines, ResultId("r_1"))["text"]
    assert "line 0\n" in shown
    assert "line 9999\n" in shown
    assert "line 5000\n" not in shown
    assert len(shown) < 2500


def test_long_fields_are_cut_wherever_they_are() -> None:
    value = {"a": "x" * 100, "b": [{"c": "y" * 100}, 5, None], "d": "short"}
    cut = cut_fields(value, 10)
    assert cut["a"] == "x" * 10 + "… (90 more characters)"
    assert cut["b"] == [{"c": "y" * 10 + "… (90 more characters)"}, 5, None]
    assert cut["d"] == "short"
