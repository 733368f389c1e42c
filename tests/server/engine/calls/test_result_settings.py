"""`[results]` in config.toml."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from ostler.protocol.config import Results
from ostler.server.config.configuration import BadConfig, load_configuration
from ostler.server.engine.calls.result_limits import resolve_limit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.shell.bash import Bash
from tests.server.engine.turn.test_stale_files import ALLOW
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash


def test_a_tools_limit_is_its_own_and_fifty_thousand_at_most_unless_it_is_set() -> None:
    assert resolve_limit(Bash(), Results()) == 30_000
    assert resolve_limit(Write(), Results()) == 50_000
    assert resolve_limit(None, Results()) == 50_000
    settings = Results(max_chars={"Bash": 100_000, "Write": 4_000, "Read": 4_000})
    assert (resolve_limit(Bash(), settings), resolve_limit(Write(), settings)) == (100_000, 4_000)
    assert resolve_limit(Read(), settings) is None


def test_a_limit_in_the_file_holds_for_the_next_turn(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    (harness.daemon.home / "config.toml").write_text("[results.max_chars]\nBash = 5000\n")
    harness.restart()
    show = message(calls("Bash", {"command": "seq 1 2000"}))
    driver = harness.open_session(show, DONE, show, DONE, rules={"allow": ["Bash"]})
    driver.run_turn()
    assert driver.fetch_result_texts()[0].startswith("<persisted-output>\nOutput too large (8.7 KB).")
    changed = harness.daemon.call("config/set", key="results.max_chars", value={"Bash": 10_000})
    assert changed["applies"] == "now"
    driver.run_turn()
    assert driver.fetch_result_texts()[1].endswith("\n2000")


def test_the_limit_of_one_tool_is_set_and_taken_back_beside_the_others(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    file = harness.daemon.home / "config.toml"
    file.write_text("[results]\nmax_chars.Grep = 5000  # short\n")
    harness.restart()
    call = harness.daemon.call
    key = "results.max_chars.Bash"
    changed = {"key": key, "value": 9_000, "previous": None, "applies": "now"}
    assert call("config/set", key=key, value=9_000) == changed
    assert call("config/get", key=key)["value"] == 9_000
    assert call("config/get", key="results.max_chars")["value"] == {"Grep": 5_000, "Bash": 9_000}
    assert "# short" in file.read_text()
    harness.restart()
    assert call("config/get", key="results.max_chars")["value"] == {"Grep": 5_000, "Bash": 9_000}
    call("config/set", key=key, value=None)
    call("config/set", key="results.max_chars.Grep", value=None)
    assert call("config/get", key="results.max_chars")["value"] == {}
    harness.restart()
    assert call("config/get", key="results.max_chars")["value"] == {}
    error = harness.daemon.expect_error("config/set", key="results.per_message_chars.Bash", value=1)
    assert "there is no setting" in error["data"]["errors"][0]["reason"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[results]\nmax_chars.Bash = 100\n", "results.max_chars.Bash: Input should be greater than or equal to 4000"),
        (
            "[results]\nper_message_chars = 1\n",
            "results.per_message_chars: Input should be greater than or equal to 10000",
        ),
        (
            "[results]\nper_message = 1\n",
            "there is no setting 'results.per_message'; did you mean 'results.per_message_",
        ),
    ],
)
def test_a_wrong_value_in_the_file_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(BadConfig) as refused:
        load_configuration(file, {}, {})
    assert str(refused.value).startswith(f"{file}: {words}")


def test_a_wrong_value_in_the_environment_is_named_by_its_variable(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"^OSTLER_RESULTS__MAX_CHARS: Input should be"):
        load_configuration(tmp_path / "config.toml", {}, {"OSTLER_RESULTS__MAX_CHARS": '{"Bash": 1}'})


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("results.per_message_chars", 9_999, "greater than or equal to 10000"),
        ("results.per_message_chars", 10_000_001, "less than or equal to 10000000"),
        ("results.max_chars", {"Bash": 100}, "greater than or equal to 4000"),
        ("results.max_chars.Bash", 100, "greater than or equal to 4000"),
        ("results.max_chars", {"Bash": 2_000_000}, "less than or equal to 1000000"),
        ("results.max_chars", {"Bash": "many"}, "valid integer"),
        ("results.max_chars", 5_000, "valid dictionary"),
    ],
)
def test_values_out_of_bounds_are_refused_in_words(harness: Harness, key: str, value: object, words: str) -> None:
    error = harness.daemon.expect_error("config/set", key=key, value=value)
    assert error["data"]["errors"][0]["path"] == "value"
    assert words in error["data"]["errors"][0]["reason"]


def get_sent_content(driver: SessionDriver, place: int) -> bytes:
    """A message of the newest request, as the model got it."""
    return orjson.dumps(driver.requests[-1].messages[place]["content"])


# What was sent once.


def test_a_result_that_was_replaced_stays_so_under_a_larger_limit(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_RESULTS__MAX_CHARS='{"Bash": 5000}')
    driver = harness.open_session(message(bash("seq 1 2000")), otherwise=DONE, rules=ALLOW)
    driver.run_turn()
    first = get_sent_content(driver, 2)
    assert first.count(b"<persisted-output>") == 1
    harness.daemon.environment["OSTLER_RESULTS__MAX_CHARS"] = '{"Bash": 50000}'
    harness.restart()
    driver.run_turn("Once more.")
    assert get_sent_content(driver, 2) == first
    assert harness.api.prefix_changes == []


def test_a_result_that_was_shown_whole_stays_so_under_a_smaller_limit(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(message(bash("seq 1 2000")), otherwise=DONE, rules=ALLOW)
    driver.run_turn()
    first = get_sent_content(driver, 2)
    assert b"<persisted-output>" not in first
    harness.daemon.environment |= {
        "OSTLER_RESULTS__MAX_CHARS": '{"Bash": 4000}',
        "OSTLER_RESULTS__PER_MESSAGE_CHARS": "10000",
    }
    harness.restart()
    driver.run_turn("Once more.")
    assert get_sent_content(driver, 2) == first
    assert harness.api.prefix_changes == []
