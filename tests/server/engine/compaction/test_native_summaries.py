"""Summaries that the provider's API writes itself, where it can."""

from collections.abc import Callable
from typing import Any

from ostler.server.models.anthropic.provider import AnthropicProvider, AnthropicSettings
from tests.server.engine.compaction.conversations import (
    SUMMARY,
    TOOLS,
    get_first_text,
    is_summary_request,
    list_compactions,
    print_chars,
)
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.failures import fails
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import Block, message, says
from tests.support.messages_api.token_meter import TokenMeter
from tests.support.model_replies import DONE

OWN = "The API says: the mare was fed."


def compacts(text: str | None) -> Reply:
    """A block that the API has written, after which it pauses."""
    delta = {"type": "compaction_delta", "content": text}
    return message(Block({"type": "compaction", "content": None}, (delta,)), stop_reason="compaction")


def open_native(own_harness: Callable[..., Harness], native: Reply) -> tuple[SessionDriver, list[RecordedRequest]]:
    """A session whose conversation is longer than what the API summarises; and the requests that ask it to."""
    harness = own_harness(
        OSTLER_CONTEXT__WINDOW="100000", OSTLER_MODEL__MAX_OUTPUT_TOKENS="4000", OSTLER_MODEL__COMPACTION="always"
    )
    harness.api.may_rewrite = harness.api.may_refuse = True
    harness.api.meter = TokenMeter(100_000)
    made = iter(range(9))
    asked: list[RecordedRequest] = []

    def step(request: RecordedRequest) -> Reply:
        if "context_management" in request.body:
            asked.append(request)
            return native
        if is_summary_request(request):
            return message(says(SUMMARY))
        at = next(made, None)
        return DONE if at is None else message(print_chars(28_000, at))

    driver = harness.open_session(otherwise=step, tools=TOOLS, rules={"allow": ["Bash"]})
    assert driver.run_turn()["reason"] == "completed"
    return driver, asked


def compact(driver: SessionDriver) -> dict[str, Any]:
    driver.daemon.call("session/compact", session_id=driver.id, instructions="Keep the mare.")
    driver.run_turn("Go on.")
    return list_compactions(driver)[-1]


def test_the_api_is_asked_to_and_its_words_stand_in_the_same_place(own_harness: Callable[..., Harness]) -> None:
    driver, asked = open_native(own_harness, compacts(OWN))
    assert compact(driver)["summarised"] is True
    (request,) = asked
    assert request.headers["anthropic-beta"] == "compact-2026-01-12"
    (edit,) = request.body["context_management"]["edits"]
    assert (edit["type"], edit["pause_after_compaction"]) == ("compact_20260112", True)
    assert "Keep the mare." in edit["instructions"]
    assert not is_summary_request(request)
    assert OWN in get_first_text(driver.requests[-1])
    assert "anthropic-beta" not in driver.requests[-1].headers
    driver.expect_usable()


def test_where_it_writes_none_or_refuses_our_own_request_is_made(own_harness: Callable[..., Harness]) -> None:
    driver, asked = open_native(own_harness, fails(400, "context_management: Extra inputs are not permitted"))
    compact(driver)
    assert SUMMARY in get_first_text(driver.requests[-1])
    assert len(asked) == 1
    made = iter(range(9))
    step = driver.api  # the next one is not asked for: the provider has refused
    step.script(
        driver.name,
        otherwise=lambda request: (
            message(says(SUMMARY))
            if is_summary_request(request)
            else DONE
            if (at := next(made, None)) is None
            else message(print_chars(28_000, at))
        ),
    )
    driver.run_turn("More.")
    compact(driver)
    assert len(asked) == 1


def test_an_empty_block_is_no_summary(own_harness: Callable[..., Harness]) -> None:
    driver, asked = open_native(own_harness, compacts(None))
    compact(driver)
    assert len(asked) == 1
    assert SUMMARY in get_first_text(driver.requests[-1])


def test_the_makers_own_address_does_and_others_only_where_they_are_said_to() -> None:
    own = AnthropicProvider(AnthropicSettings(None, "key"))
    assert [own.compacts(model) for model in ("claude-sonnet-4-6", "claude-sonnet-5", "claude-3-opus-1", "other")] == [
        True,
        True,
        False,
        False,
    ]
    own.forgo_compaction("claude-sonnet-5")
    assert not own.compacts("claude-sonnet-5")
    assert not AnthropicProvider(AnthropicSettings("http://127.0.0.1:1", "key")).compacts("claude-sonnet-5")
    assert AnthropicProvider(AnthropicSettings("http://127.0.0.1:1", "key", compaction="always")).compacts("other")
    assert not AnthropicProvider(AnthropicSettings(None, "key", compaction="never")).compacts("claude-sonnet-5")
