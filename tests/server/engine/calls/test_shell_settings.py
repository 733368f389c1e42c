"""What the configuration says about commands: the profile, the sandbox, the background, and long results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ostler.tools.sandbox import probe_sandbox
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import calls, message, says

PROFILE = "export WHO=me\ngreet() { echo hello; }\nls() { echo a function; }\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "person"
    place.mkdir()
    (place / ".bash_profile").write_text(PROFILE)
    return place


def run_commands(harness: Harness, *given: Json, **session: Any) -> SessionDriver:
    driver = harness.open_session(**session)
    harness.api.script(driver.name, *(message(calls("Bash", each)) for each in given), message(says("Done.")))
    assert driver.run_turn()["reason"] == "completed"
    return driver


def get_bash_parameters(driver: SessionDriver) -> set[str]:
    [tool] = [tool for tool in driver.requests[0].body["tools"] if tool["name"] == "Bash"]
    return set(tool["input_schema"]["properties"])


def test_the_profile_is_there_for_what_was_allowed(own_harness: Callable[..., Harness], home: Path) -> None:
    harness = own_harness(HOME=str(home))
    driver = run_commands(
        harness,
        {"command": "greet && printenv WHO"},
        {"command": "ls"},
        rules={"allow": ["Bash(greet:*)", "Bash(printenv:*)"]},
    )
    assert driver.fetch_result_texts()[0] == "hello\nme"
    assert "a function" not in driver.fetch_result_texts()[1], "what passes by its words means just them"
    [kept] = harness.daemon.home.rglob("profile.bash")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_the_profile_can_be_left_out(own_harness: Callable[..., Harness], home: Path) -> None:
    harness = own_harness(HOME=str(home), OSTLER_TOOLS__SHELL_SNAPSHOT="false")
    driver = run_commands(harness, {"command": "greet; echo [$WHO]"}, rules={"allow": ["Bash"]})
    assert "greet: command not found" in driver.fetch_result_texts()[0]
    assert "[]" in driver.fetch_result_texts()[0]


def test_a_profile_that_hangs_is_told_in_the_log_and_holds_up_nobody_for_long(
    own_harness: Callable[..., Harness], home: Path
) -> None:
    (home / ".bash_profile").write_text("sleep 1000\n")
    harness = own_harness(HOME=str(home))
    driver = run_commands(harness, {"command": "echo ran >f; cat f"}, rules={"allow": ["Bash"]})
    assert driver.fetch_result_texts() == ["ran"]
    assert harness.daemon.stderr.count("profile_left_out") == 1
    driver.expect_usable()


def test_functions_are_there_in_the_sandbox_too_and_cannot_be_changed_from_there(
    own_harness: Callable[..., Harness], home: Path
) -> None:
    if not (support := probe_sandbox()).works:
        pytest.skip(f"the sandbox does not work here: {support.reason}")
    harness = own_harness(HOME=str(home), OSTLER_SANDBOX__MODE="on")
    driver = run_commands(harness, {"command": "greet"}, rules={"allow": ["Bash"]})
    assert driver.fetch_result_texts() == ["hello"]
    assert driver.list_event_data("tool.completed")[0]["call"]["output"]["sandboxed"]
    [kept] = harness.daemon.home.rglob("profile.bash")
    before = kept.read_text()
    command = f"echo bad >>{kept}; rm -f {kept}; mv {kept} {kept}.x; greet"
    driver = harness.open_session(rules={"allow": ["Bash"]})
    harness.api.script(driver.name, message(calls("Bash", {"command": command})), message(says("Done.")))
    turn = driver.start()
    driver.answer(driver.wait_for_ask(), "allow")  # it names the daemon's own folder
    driver.wait_for_turn_end(turn)
    assert kept.read_text() == before
    assert driver.fetch_result_texts()[0].endswith("hello")


def test_the_model_is_offered_what_the_configuration_allows(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODEL_MAY_DISABLE="true", OSTLER_TOOLS__BACKGROUND="false")
    driver = run_commands(harness, rules={"allow": ["Bash"]})
    assert get_bash_parameters(driver) == {"command", "timeout", "description", "dangerouslyDisableSandbox"}
    harness.api.script(
        driver.name,
        message(says("Done.")),
        message(calls("Bash", {"command": "echo out", "dangerously_disable_sandbox": True})),
        message(says("Done.")),
    )
    turn = driver.start()
    ask = driver.wait_for_ask()
    assert "outside the sandbox" in ask["reason"], "whatever a rule allows"
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn)
    done = driver.list_event_data("tool.completed")[-1]["call"]
    assert (done["output"]["stdout"], done["output"]["sandboxed"]) == ("out\n", False)


def test_nothing_of_it_is_offered_by_default(harness: Harness) -> None:
    driver = run_commands(harness)
    assert get_bash_parameters(driver) == {"command", "timeout", "description", "run_in_background"}


def test_a_long_output_says_where_all_of_it_is(harness: Harness) -> None:
    driver = run_commands(
        harness, {"command": "seq 20000; echo é"}, {"command": "echo short"}, rules={"allow": ["Bash"]}
    )
    long, short = (data["call"] for data in driver.list_event_data("tool.completed"))
    assert long["result_id"]
    assert long["output"]["persisted_result_id"] == long["result_id"]
    whole = "".join(f"{number}\n" for number in range(1, 20001)) + "é"
    assert long["output"]["persisted_size"] == len(whole.encode())
    assert (short["output"]["persisted_result_id"], short["output"]["persisted_size"]) == (None, None)
