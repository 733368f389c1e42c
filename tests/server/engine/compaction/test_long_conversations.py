"""A conversation goes on past any number of windows, and knows what it must."""

from tests.server.engine.compaction.conversations import (
    SMALL_WINDOW,
    SUMMARY,
    get_first_text,
    is_summary_request,
    list_compactions,
    list_counted,
    open_filling,
)
from tests.support.driver import Harness


def test_ten_windows_go_by_without_one_rejected_request(window: Harness) -> None:
    driver = open_filling(window, calls=80, chars=24_000)
    turn = driver.run_turn("Feed the grey mare first.")
    assert (turn["reason"], turn["result_text"], turn["error"]) == ("completed", "Done.", None)
    counted = list_counted(window, driver)
    assert [one for one in counted if one.rejected] == []
    results = sum(len(text) for text in driver.fetch_result_texts()) // 4
    assert results > 10 * SMALL_WINDOW
    compactions = list_compactions(driver)
    assert len(compactions) >= 10
    for one in compactions:
        assert one["after_tokens"] < one["before_tokens"] < SMALL_WINDOW
        assert (one["summarised"], one["trigger"]) == (True, "auto")
    last = get_first_text(driver.requests[-1])
    assert last.startswith("<ostler-summary>")
    assert f"[{driver.name}] Feed the grey mare first." in last
    assert SUMMARY in last
    # People see everything: all results, and where it happened.
    shown = driver.fetch_messages()
    summaries = [one for one in shown if one["summary"]]
    assert [one["id"] for one in summaries] == [one["message_id"] for one in compactions]
    assert len(driver.fetch_results()) == 80
    driver.expect_usable()
    assert len([one for one in driver.requests if is_summary_request(one)]) == len(compactions)
