"""Calls that make no sense: each becomes a result that the model can learn from."""

from collections.abc import Callable

import orjson
import pytest

from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import Block, calls, calls_raw, message, says, split_text
from tests.support.model_replies import DONE


def run_failing_call(driver: SessionDriver, call: Block) -> str:
    """What the model is told about this call, which must be an error."""
    driver.api.script(driver.name, message(call), DONE)
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    [result] = driver.fetch_results()
    assert result["is_error"] is True
    [text] = driver.fetch_result_texts()
    assert text.startswith("<tool_use_error>")
    assert text.endswith("</tool_use_error>")
    return text


@pytest.mark.parametrize("raw", ['{"file_path": "a', "{file_path: 1}", "not json", '{"a": 1} {"b": 2}'])
def test_broken_json_is_not_run_and_shown_to_the_model(harness: Harness, raw: str) -> None:
    driver = harness.open_session()
    text = run_failing_call(driver, calls_raw("Read", raw))
    assert "not a JSON object" in text
    assert raw in text
    assert driver.fetch_messages()[1]["content"][0]["input"] == {}
    driver.expect_usable()


@pytest.mark.parametrize("raw", ["[1, 2]", '"text"', "42", "null", "true"])
def test_input_that_is_no_object_is_not_run(harness: Harness, raw: str) -> None:
    driver = harness.open_session()
    assert "not a JSON object" in run_failing_call(driver, calls_raw("Read", raw))
    driver.expect_usable()


def test_an_unknown_tool_is_answered_with_the_closest(harness: Harness) -> None:
    driver = harness.open_session()
    text = run_failing_call(driver, calls("Raed", {"file_path": "/x"}))
    assert "'Raed'" in text
    assert "Read" in text
    assert driver.list_event_data("tool.completed")[0]["call"]["tool"] == "Raed"
    driver.expect_usable()


@pytest.mark.parametrize("name", ["", "a name with blanks", "ÜÖ", "x" * 500])
def test_a_name_that_no_tool_could_have_leaves_a_history_that_can_be_sent(harness: Harness, name: str) -> None:
    driver = harness.open_session()
    run_failing_call(driver, calls(name, {}))
    driver.expect_usable()


def test_wrong_types_are_explained_one_line_each(harness: Harness) -> None:
    driver = harness.open_session()
    text = run_failing_call(driver, calls("Read", {"file_path": 5, "limit": "many", "colour": "red"}))
    lines = text.splitlines()[1:]
    assert len(lines) == 3
    assert "`file_path`: given 5" in text
    assert "`limit`: given" in text
    assert "`colour` is not a parameter" in text
    driver.expect_usable()


def test_a_missing_parameter_is_named(harness: Harness) -> None:
    driver = harness.open_session()
    assert "`file_path` is missing" in run_failing_call(driver, calls("Read", {}))
    driver.expect_usable()


def test_common_slips_are_mended(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("a.txt", "one\ntwo\nthree\n")
    edit = {"file_path": path, "old_string": "two", "new_string": "2", "replace_all": "True"}
    harness.api.script(
        driver.name,
        message(calls("Read", {"file_path": path, "limit": "2"}), calls("Edit", edit)),
        DONE,
    )
    driver.run_turn(mode="acceptEdits")
    first, second = (data["call"] for data in driver.list_event_data("tool.completed"))
    assert (first["is_error"], first["input"]["limit"]) == (False, 2)
    assert (second["is_error"], second["input"]["replace_all"]) == (False, True)
    # The history keeps what the model wrote.
    assert driver.fetch_messages()[1]["content"][0]["input"]["limit"] == "2"
    driver.expect_usable()


def test_ten_megabytes_of_input_are_taken_and_written(harness: Harness) -> None:
    driver = harness.open_session()
    content = "x" * (10 * 1024 * 1024)
    given = {"file_path": f"{driver.folder}/big.txt", "content": content}
    harness.api.script(driver.name, message(calls("Write", given, piece_chars=1024 * 1024)), DONE)
    turn = driver.run_turn(mode="acceptEdits")
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert (driver.folder / "big.txt").stat().st_size == len(content)
    driver.expect_usable()


def test_ten_megabytes_of_wrong_input_are_not_repeated_to_the_model(harness: Harness) -> None:
    driver = harness.open_session()
    text = run_failing_call(driver, calls_raw("Read", "x" * (10 * 1024 * 1024)))
    assert len(text) < 1000
    driver.expect_usable()


def test_deep_input_is_refused_and_not_lethal(harness: Harness) -> None:
    driver = harness.open_session()
    raw = '{"file_path": ' + "[" * 2000 + "]" * 2000 + "}"
    assert "nested deeper than 100" in run_failing_call(driver, calls_raw("Read", raw))
    driver.expect_usable()


@pytest.mark.parametrize(
    "raw",
    [
        "{" + ",".join(f'"a{n}":1' for n in range(900_000)) + "}",
        '{"file_path":[' + '{"a":{}},' * 1_100_000 + "1]}",
        '{"file_path":[' + "[]," * 3_400_000 + "1]}",
        '{"file_path":[' + "1," * 5_000_000 + "1]}",
    ],
    ids=["names", "objects", "lists", "numbers"],
)
def test_input_of_too_many_values_is_refused_unread(harness: Harness, raw: str) -> None:
    driver = harness.open_session()
    text = run_failing_call(driver, calls_raw("Read", *split_text(raw, 1024 * 1024)))
    assert "more than 100000 values" in text
    assert "nothing was run" in text
    assert len(text) < 1000
    driver.expect_usable()


def test_ten_megabytes_of_brackets_commas_and_quotes_are_written(harness: Harness) -> None:
    driver = harness.open_session()
    content = '[{",\\' * (2 * 1024 * 1024)
    given = {"file_path": f"{driver.folder}/signs.txt", "content": content}
    harness.api.script(driver.name, message(calls("Write", given, piece_chars=1024 * 1024)), DONE)
    assert driver.run_turn(mode="acceptEdits")["reason"] == "completed"
    assert (driver.folder / "signs.txt").read_text() == content
    driver.expect_usable()


def test_repeated_ids_are_told_apart(harness: Harness) -> None:
    driver = harness.open_session()
    one, two = (
        calls("Read", {"file_path": driver.write_file(name, f"{name}\n")}, id="toolu_same") for name in ("a", "b")
    )
    three = calls("Read", {"file_path": driver.write_file("c", "c\n")}, id="toolu_same")
    harness.api.script(driver.name, message(one, two), message(three), DONE)
    turn = driver.run_turn()
    assert (turn["reason"], turn["tool_calls"]) == ("completed", 3)
    ids = [block["id"] for one in driver.fetch_messages() for block in one["content"] if block["type"] == "tool_use"]
    assert len(set(ids)) == 3
    assert [result["tool_use_id"] for result in driver.fetch_results()] == ids
    texts = driver.fetch_result_texts()
    assert all(name in text for name, text in zip("abc", texts, strict=True))
    driver.expect_usable()


def test_two_hundred_calls_at_once_are_all_answered_in_order(harness: Harness) -> None:
    driver = harness.open_session()
    files = [driver.write_file(f"{n}.txt", f"number {n}\n") for n in range(200)]
    harness.api.script(driver.name, message(*(calls("Read", {"file_path": path}) for path in files)), DONE)
    turn = driver.run_turn()
    assert (turn["reason"], turn["tool_calls"], turn["model_requests"]) == ("completed", 200, 2)
    texts = driver.fetch_result_texts()
    assert len(texts) == 200
    assert all(f"number {n}" in text for n, text in enumerate(texts))
    driver.expect_usable()


@pytest.mark.parametrize("where", ["validate", "check", "run"])
def test_a_tool_that_raises_fails_its_call_only(harness: Harness, where: str) -> None:
    driver = harness.open_session()
    text = run_failing_call(driver, calls("Breaking", {"where": where}))
    assert f"RuntimeError: {where} breaks" in text
    assert "Traceback" not in text
    driver.expect_usable()


def test_a_tool_whose_safety_check_raises_runs_alone(harness: Harness) -> None:
    driver = harness.open_session()
    gate = {"path": driver.get_gate_path("go"), "safe": True}
    harness.api.script(driver.name, message(calls("Gate", gate), calls("Breaking", {"where": "safety"})), DONE)
    turn_id = driver.start()
    driver.wait_at_gate("go")
    driver.wait("tool.queued", lambda data: data["call"]["tool"] == "Breaking")
    driver.open_gate("go")
    driver.wait_for_turn_end(turn_id)
    assert driver.list_call_events().index(("started", 1)) > driver.list_call_events().index(("completed", 0))
    assert driver.fetch_result_texts() == ["passed go", "safety"]
    driver.expect_usable()


def test_a_result_that_cannot_be_shown_is_a_result_all_the_same(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Breaking", {"where": "render"})), DONE)
    assert driver.run_turn()["reason"] == "completed"
    assert "could not be shown" in driver.fetch_result_texts()[0]
    driver.expect_usable()


def test_an_empty_result_is_filled(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Breaking", {"where": "empty"})), DONE)
    driver.run_turn()
    assert driver.fetch_result_texts() == ["(Breaking completed with no output)"]


def test_a_result_that_is_too_large_is_kept_whole_elsewhere(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Bash", {"command": "seq 1 20000"})), DONE, rules={"allow": ["Bash"]})
    driver.run_turn()
    [text] = driver.fetch_result_texts()
    assert text.startswith("<persisted-output>")
    assert len(text) < 5000
    assert "\n20000\n" in text
    call = driver.list_event_data("tool.completed")[0]["call"]
    assert f"result://{call['result_id']}" in text
    whole = harness.daemon.send_http("GET", f"/results/{call['result_id']}")
    assert whole.status == 200
    assert b"\n12345\n" in whole.body
    assert len(orjson.dumps(call)) < 200_000


def test_a_disk_that_fails_inside_a_call_is_the_trouble_of_its_session(own_harness: Callable[..., Harness]) -> None:
    """No result for the model: what is in memory is more than what is stored."""
    harness = own_harness()
    driver = harness.open_session(message(calls("Breaking", {"where": "disk"})), otherwise=message(says("Done.")))
    turn_id = driver.start()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert len(driver.requests) == 1
    assert "outcome unknown" in driver.fetch_result_texts()[0]
    assert "the disk breaks" not in str(driver.fetch_messages())
    driver.expect_usable()
