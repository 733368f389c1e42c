"""Calls that make no sense: each becomes a result that the model can learn from."""

from collections.abc import Callable

import orjson
import pytest

from tests.support.driver import Stage, Talk
from tests.support.messages_api.replies import Block, calls, calls_raw, message, pieces, says
from tests.support.model_replies import DONE


def only_result(talk: Talk, call: Block) -> str:
    """What the model is told about this call, which must be an error."""
    talk.api.script(talk.name, message(call), DONE)
    turn = talk.turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    [result] = talk.results()
    assert result["is_error"] is True
    [text] = talk.result_texts()
    assert text.startswith("<tool_use_error>")
    assert text.endswith("</tool_use_error>")
    return text


@pytest.mark.parametrize("raw", ['{"file_path": "a', "{file_path: 1}", "not json", '{"a": 1} {"b": 2}'])
def test_broken_json_is_not_run_and_shown_to_the_model(stage: Stage, raw: str) -> None:
    talk = stage.talk()
    text = only_result(talk, calls_raw("Read", raw))
    assert "not a JSON object" in text
    assert raw in text
    assert talk.messages()[1]["content"][0]["input"] == {}
    talk.is_usable()


@pytest.mark.parametrize("raw", ["[1, 2]", '"text"', "42", "null", "true"])
def test_input_that_is_no_object_is_not_run(stage: Stage, raw: str) -> None:
    talk = stage.talk()
    assert "not a JSON object" in only_result(talk, calls_raw("Read", raw))
    talk.is_usable()


def test_an_unknown_tool_is_answered_with_the_closest(stage: Stage) -> None:
    talk = stage.talk()
    text = only_result(talk, calls("Raed", {"file_path": "/x"}))
    assert "'Raed'" in text
    assert "Read" in text
    assert talk.all("tool.completed")[0]["call"]["tool"] == "Raed"
    talk.is_usable()


@pytest.mark.parametrize("name", ["", "a name with blanks", "ÜÖ", "x" * 500])
def test_a_name_that_no_tool_could_have_leaves_a_history_that_can_be_sent(stage: Stage, name: str) -> None:
    talk = stage.talk()
    only_result(talk, calls(name, {}))
    talk.is_usable()


def test_wrong_types_are_explained_one_line_each(stage: Stage) -> None:
    talk = stage.talk()
    text = only_result(talk, calls("Read", {"file_path": 5, "limit": "many", "colour": "red"}))
    lines = text.splitlines()[1:]
    assert len(lines) == 3
    assert "`file_path`: given 5" in text
    assert "`limit`: given" in text
    assert "`colour` is not a parameter" in text
    talk.is_usable()


def test_a_missing_parameter_is_named(stage: Stage) -> None:
    talk = stage.talk()
    assert "`file_path` is missing" in only_result(talk, calls("Read", {}))
    talk.is_usable()


def test_common_slips_are_mended(stage: Stage) -> None:
    talk = stage.talk()
    path = talk.file("a.txt", "one\ntwo\nthree\n")
    edit = {"file_path": path, "old_string": "two", "new_string": "2", "replace_all": "True"}
    stage.api.script(
        talk.name,
        message(calls("Read", {"file_path": path, "limit": "2"}), calls("Edit", edit)),
        DONE,
    )
    talk.turn(mode="acceptEdits")
    first, second = (data["call"] for data in talk.all("tool.completed"))
    assert (first["is_error"], first["input"]["limit"]) == (False, 2)
    assert (second["is_error"], second["input"]["replace_all"]) == (False, True)
    # The history keeps what the model wrote.
    assert talk.messages()[1]["content"][0]["input"]["limit"] == "2"
    talk.is_usable()


def test_ten_megabytes_of_input_are_taken_and_written(stage: Stage) -> None:
    talk = stage.talk()
    content = "x" * (10 * 1024 * 1024)
    given = {"file_path": f"{talk.folder}/big.txt", "content": content}
    stage.api.script(talk.name, message(calls("Write", given, piece_chars=1024 * 1024)), DONE)
    turn = talk.turn(mode="acceptEdits")
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert (talk.folder / "big.txt").stat().st_size == len(content)
    talk.is_usable()


def test_ten_megabytes_of_wrong_input_are_not_repeated_to_the_model(stage: Stage) -> None:
    talk = stage.talk()
    text = only_result(talk, calls_raw("Read", "x" * (10 * 1024 * 1024)))
    assert len(text) < 1000
    talk.is_usable()


def test_deep_input_is_refused_and_not_lethal(stage: Stage) -> None:
    talk = stage.talk()
    raw = '{"file_path": ' + "[" * 2000 + "]" * 2000 + "}"
    assert "nested deeper than 100" in only_result(talk, calls_raw("Read", raw))
    talk.is_usable()


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
def test_input_of_too_many_values_is_refused_unread(stage: Stage, raw: str) -> None:
    talk = stage.talk()
    text = only_result(talk, calls_raw("Read", *pieces(raw, 1024 * 1024)))
    assert "more than 100000 values" in text
    assert "nothing was run" in text
    assert len(text) < 1000
    talk.is_usable()


def test_ten_megabytes_of_brackets_commas_and_quotes_are_written(stage: Stage) -> None:
    talk = stage.talk()
    content = '[{",\\' * (2 * 1024 * 1024)
    given = {"file_path": f"{talk.folder}/signs.txt", "content": content}
    stage.api.script(talk.name, message(calls("Write", given, piece_chars=1024 * 1024)), DONE)
    assert talk.turn(mode="acceptEdits")["reason"] == "completed"
    assert (talk.folder / "signs.txt").read_text() == content
    talk.is_usable()


def test_repeated_ids_are_told_apart(stage: Stage) -> None:
    talk = stage.talk()
    one, two = (calls("Read", {"file_path": talk.file(name, f"{name}\n")}, id="toolu_same") for name in ("a", "b"))
    three = calls("Read", {"file_path": talk.file("c", "c\n")}, id="toolu_same")
    stage.api.script(talk.name, message(one, two), message(three), DONE)
    turn = talk.turn()
    assert (turn["reason"], turn["tool_calls"]) == ("completed", 3)
    ids = [block["id"] for one in talk.messages() for block in one["content"] if block["type"] == "tool_use"]
    assert len(set(ids)) == 3
    assert [result["tool_use_id"] for result in talk.results()] == ids
    texts = talk.result_texts()
    assert all(name in text for name, text in zip("abc", texts, strict=True))
    talk.is_usable()


def test_two_hundred_calls_at_once_are_all_answered_in_order(stage: Stage) -> None:
    talk = stage.talk()
    files = [talk.file(f"{n}.txt", f"number {n}\n") for n in range(200)]
    stage.api.script(talk.name, message(*(calls("Read", {"file_path": path}) for path in files)), DONE)
    turn = talk.turn()
    assert (turn["reason"], turn["tool_calls"], turn["model_requests"]) == ("completed", 200, 2)
    texts = talk.result_texts()
    assert len(texts) == 200
    assert all(f"number {n}" in text for n, text in enumerate(texts))
    talk.is_usable()


@pytest.mark.parametrize("where", ["validate", "check", "run"])
def test_a_tool_that_raises_fails_its_call_only(stage: Stage, where: str) -> None:
    talk = stage.talk()
    text = only_result(talk, calls("Breaking", {"where": where}))
    assert f"RuntimeError: {where} breaks" in text
    assert "Traceback" not in text
    talk.is_usable()


def test_a_tool_whose_safety_check_raises_runs_alone(stage: Stage) -> None:
    talk = stage.talk()
    gate = {"path": talk.gate("go"), "safe": True}
    stage.api.script(talk.name, message(calls("Gate", gate), calls("Breaking", {"where": "safety"})), DONE)
    turn_id = talk.start()
    talk.at_gate("go")
    talk.wait("tool.queued", lambda data: data["call"]["tool"] == "Breaking")
    talk.open_gate("go")
    talk.ended(turn_id)
    assert talk.call_events().index(("started", 1)) > talk.call_events().index(("completed", 0))
    assert talk.result_texts() == ["passed go", "safety"]
    talk.is_usable()


def test_a_result_that_cannot_be_shown_is_a_result_all_the_same(stage: Stage) -> None:
    talk = stage.talk(message(calls("Breaking", {"where": "render"})), DONE)
    assert talk.turn()["reason"] == "completed"
    assert "could not be shown" in talk.result_texts()[0]
    talk.is_usable()


def test_an_empty_result_is_filled(stage: Stage) -> None:
    talk = stage.talk(message(calls("Breaking", {"where": "empty"})), DONE)
    talk.turn()
    assert talk.result_texts() == ["(Breaking completed with no output)"]


def test_a_result_that_is_too_large_is_kept_whole_elsewhere(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "seq 1 20000"})), DONE, rules={"allow": ["Bash"]})
    talk.turn()
    [text] = talk.result_texts()
    assert text.startswith("<persisted-output>")
    assert len(text) < 5000
    assert "\n20000\n" in text
    call = talk.all("tool.completed")[0]["call"]
    assert f"result://{call['result_id']}" in text
    whole = stage.daemon.http("GET", f"/results/{call['result_id']}")
    assert whole.status == 200
    assert b"\n12345\n" in whole.body
    assert len(orjson.dumps(call)) < 200_000


def test_a_disk_that_fails_inside_a_call_is_the_trouble_of_its_session(own_stage: Callable[..., Stage]) -> None:
    """No result for the model: what is in memory is more than what is stored."""
    stage = own_stage()
    talk = stage.talk(message(calls("Breaking", {"where": "disk"})), otherwise=message(says("Done.")))
    turn_id = talk.start()
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert len(talk.requests) == 1
    assert "outcome unknown" in talk.result_texts()[0]
    assert "the disk breaks" not in str(talk.messages())
    talk.is_usable()
