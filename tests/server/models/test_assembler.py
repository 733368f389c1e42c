"""From raw events to blocks that can be stored and sent back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.server.engine.session.history import History, joined
from ostler.server.models import assembler as assembly_module
from ostler.server.models.assembler import Assembly, Delta, Step, ToolUse
from ostler.server.models.provider import ModelFailure
from tests.support.messages_api.validation import problems

Event = dict[str, Any]


def block(start: Event, *deltas: Event) -> list[Event]:
    return [
        {"type": "content_block_start", "index": 0, "content_block": start},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
    ]


def text(*pieces: str) -> list[Event]:
    return block({"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def thinking(words: str, signature: str | None) -> list[Event]:
    signed = [{"type": "signature_delta", "signature": signature}] if signature else []
    return block({"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": words}, *signed)


def tool_use(name: str, *pieces: str, id: str = "toolu_1") -> list[Event]:
    start = {"type": "tool_use", "id": id, "name": name, "input": {}}
    return block(start, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def whole(*blocks: list[Event], stop_reason: str = "end_turn") -> list[Event]:
    return [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}},
        *(event for each in blocks for event in each),
        {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


def fed(events: list[Event], used_ids: set[str] | None = None) -> tuple[Assembly, list[Step]]:
    assembly = Assembly(used_ids or set())
    return assembly, [step for event in events for step in assembly.feed(event)]


def test_a_whole_message_is_read() -> None:
    assembly, steps = fed(whole(text("Hello ", "there"), tool_use("Read", '{"a"', ": 1}"), stop_reason="tool_use"))
    assert assembly.stopped
    assert (assembly.stop_reason, assembly.model, assembly.text) == ("tool_use", "m", "Hello there")
    assert (assembly.usage.input_tokens, assembly.usage.output_tokens) == (3, 9)
    assert assembly.content[1] == {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"a": 1}}
    assert [step for step in steps if isinstance(step, ToolUse)] == [ToolUse(1, "toolu_1", "Read", {"a": 1})]
    assert steps[0] == Delta(0, "text", 0, "Hello ")
    assert steps[1] == Delta(0, "text", 6, "there")


def test_facts_of_a_wrong_type_are_not_taken() -> None:
    begin = {"type": "message_start", "message": {"model": 5, "usage": {"input_tokens": 2**63, "output_tokens": -1}}}
    end = {"type": "message_delta", "delta": {"stop_reason": {"why": 5}}}
    assembly, _ = fed([begin, *text("Hello"), end, {"type": "message_stop"}])
    assert (assembly.text, assembly.model, assembly.stop_reason) == ("Hello", None, None)
    assert (assembly.usage.input_tokens, assembly.usage.output_tokens) == (0, 0)


def test_a_call_without_input_has_an_empty_object() -> None:
    assembly, steps = fed(whole(tool_use("Read"), tool_use("Read", "", "  ", id="toolu_2")))
    assert [step.unusable for step in steps if isinstance(step, ToolUse)] == [None, None]
    assert [one["input"] for one in assembly.content] == [{}, {}]


@pytest.mark.parametrize("raw", ["{", "[]", "1", '"x"', "null", '{"a":1}}', "{'a':1}", '{"a":NaN}'])
def test_input_that_is_no_object_is_marked_as_broken(raw: str) -> None:
    assembly, steps = fed(whole(tool_use("Read", raw)))
    [call] = [step for step in steps if isinstance(step, ToolUse)]
    assert call.input == {}
    assert (call.unusable or "").endswith(f"so nothing was run. It was: {raw}")
    assert assembly.content[0]["input"] == {}


@pytest.mark.parametrize(
    ("raw", "limit"),
    [
        ('{"a":[' + "[]," * 100_000 + "1]}", "more than 100000 values"),
        ("{" + ",".join(f'"a{n}":1' for n in range(100_002)) + "}", "more than 100000 values"),
        ('{"a":[' + '",",' * 250_000 + '""]}', "more than 100000 values"),
        ('{"a":' + "[" * 100 + "]" * 100 + "}", "nested deeper than 100"),
    ],
)
def test_input_over_a_limit_is_not_parsed_and_says_which_limit(raw: str, limit: str) -> None:
    assembly, steps = fed(whole(tool_use("Read", raw)))
    [call] = [step for step in steps if isinstance(step, ToolUse)]
    assert call.input == {}
    assert limit in (call.unusable or "")
    assert raw[:200] in (call.unusable or "")
    assert assembly.content[0]["input"] == {}


@pytest.mark.parametrize(
    "given",
    [
        {"a": '",[{\\' * 500_000},
        {"a": list(range(99_000))},
        {"a": json.loads("[" * 99 + "]" * 99), "b": [[] for _ in range(200)]},
    ],
    ids=["a text full of signs", "many values", "deep"],
)
def test_input_within_the_limits_is_read_whatever_stands_in_its_texts(given: dict[str, Any]) -> None:
    _, steps = fed(whole(tool_use("Write", json.dumps(given))))
    [call] = [step for step in steps if isinstance(step, ToolUse)]
    assert call.unusable is None
    assert call.input == given


def test_half_a_character_in_the_input_is_broken_json() -> None:
    _, steps = fed(whole(tool_use("Read", '{"a":"\ud800"}')))
    [call] = [step for step in steps if isinstance(step, ToolUse)]
    assert (call.unusable or "").endswith('so nothing was run. It was: {"a":"\ud800"}')


def test_ids_are_unique_in_the_message_and_in_the_history() -> None:
    twice = [*tool_use("Read", "{}"), *tool_use("Read", "{}")]
    assembly, _ = fed(whole(twice), used_ids={"toolu_1"})
    assert [one["id"] for one in assembly.content] == ["toolu_1_2", "toolu_1_3"]


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 300, "a/b.c"])
def test_names_are_made_such_that_the_api_takes_them_back(name: str) -> None:
    assembly, steps = fed(whole(tool_use(name, "{}")))
    [call] = [step for step in steps if isinstance(step, ToolUse)]
    assert call.name == name
    shown = assembly.content[0]["name"]
    assert 1 <= len(shown) <= 128
    assert shown.isascii()
    assert " " not in shown


def test_blanks_in_front_of_words_belong_to_them() -> None:
    assembly, steps = fed(whole(text(" ", "\n", "x", " ")))
    assert assembly.content == [{"type": "text", "text": " \nx "}]
    assert steps[0] == Delta(0, "text", 0, " \nx")


def test_a_text_of_blanks_leaves_no_gap_in_the_numbers() -> None:
    assembly, steps = fed(whole(text("  "), tool_use("Read", "{}")))
    assert [one["type"] for one in assembly.content] == ["tool_use"]
    assert [step.index for step in steps] == [0, 0]


def test_an_error_in_the_stream_is_a_failure_of_its_kind() -> None:
    for kind, expected in (("overloaded_error", "overloaded"), ("rate_limit_error", "rate_limited"), ("odd", "server")):
        with pytest.raises(ModelFailure) as raised:
            fed([{"type": "error", "error": {"type": kind, "message": "no"}}])
        assert raised.value.kind == expected


def test_a_message_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly_module, "MAX_MESSAGE_CHARS", 100)
    with pytest.raises(ModelFailure) as raised:
        fed(whole(text(*["x" * 10] * 11)))
    assert raised.value.kind == "garbage"


def test_what_was_open_at_the_end_is_kept_where_it_is_text() -> None:
    for last in (text("half a ", "sentence")[:-1], text("half a ", "sentence")[:-2]):
        assembly, _ = fed([whole()[0], *last])
        assembly.end_where_it_broke()
        assert assembly.content[0]["text"].startswith("half a ")
    for last in (tool_use("Read", "{}")[:-1], thinking("Hm", "sig")[:-1]):
        assembly, _ = fed([whole()[0], *last])
        assembly.end_where_it_broke()
        assert assembly.content == []


@pytest.fixture(params=[1, 10**9], ids=["long", "short"])
def long_chars(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """From which length on a block is made ahead, on a thread."""
    monkeypatch.setattr(assembly_module, "LONG_CHARS", request.param)
    return int(request.param)


@pytest.mark.parametrize(
    "events",
    [
        whole(text("Hello ", "there"), thinking("Hm", "sig"), tool_use("Read", '{"a"', ": 1}"), tool_use("B", "[")),
        [*whole(text("never closed"))[:-3], *whole()[-2:]],
        [*whole(tool_use("Read", "{}"))[:-3], *whole()[-2:]],
        whole(
            block(
                {"type": "server_tool_use", "id": "s", "name": "n"}, {"type": "input_json_delta", "partial_json": "{}"}
            )
        ),
        whole(block({"type": "", "id": "s"}, {"type": "text_delta", "text": "x"}), text("y")),
    ],
    ids=["blocks", "open text", "open call", "other", "no kind"],
)
def test_a_block_that_is_made_ahead_is_the_same(long_chars: int, events: list[Event]) -> None:
    plainly, steps = fed(events)
    ahead, made = Assembly(set()), 0
    steps_ahead: list[Step] = []
    for event in events:
        if ahead.ends_long(event):
            ahead.make_ahead()
            made += 1
        steps_ahead += ahead.feed(event)
    assert (ahead.content, ahead.encoded, steps_ahead) == (plainly.content, plainly.encoded, steps)
    assert [json.loads(each) for each in plainly.encoded] == plainly.content
    kinds = {one["type"] for one in plainly.content}
    assert bool(made) == (bool(kinds) and long_chars == 1)


@pytest.mark.usefixtures("long_chars")
def test_a_text_that_breaks_off_is_made_ahead_and_a_call_is_not() -> None:
    for last, kept in ((text("half a ", "sentence")[:-1], ["text"]), (tool_use("Read", "{}")[:-1], [])):
        assembly, _ = fed([whole()[0], *last])
        if assembly.ends_long():
            assembly.make_ahead()
        assembly.end_where_it_broke()
        assert [one["type"] for one in assembly.content] == kept
        assert [json.loads(each) for each in assembly.encoded] == assembly.content


def test_what_is_said_of_one_block_never_becomes_a_part_of_another() -> None:
    half = tool_use("Bash", '{"command": "echo ')[:-1]
    rest = {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": 'evil"}'}}
    for odd in (rest, {"type": "content_block_stop", "index": 7}, tool_use("Bash", "{}")[0]):
        assembly, _ = fed([whole()[0], *half])
        with pytest.raises(ValueError, match=r"is open|in the middle of another"):
            list(assembly.feed(odd))
        assembly.end_where_it_broke()
        assert assembly.content == []


def test_blocks_without_numbers_are_taken_in_turn() -> None:
    events = [
        {name: value for name, value in event.items() if name != "index"} for event in whole(text("a"), text("b"))
    ]
    assert fed(events)[0].text == "ab"


def test_a_text_that_was_not_closed_ends_where_the_next_block_begins() -> None:
    assembly, _ = fed([*whole(text("said"))[:-3], *tool_use("Read", "{}"), *whole()[-2:]])
    assert [one["type"] for one in assembly.content] == ["text", "tool_use"]


def test_a_message_of_endless_blocks_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly_module, "MAX_BLOCKS", 3)
    assert len(fed(whole(*[text("x")] * 3))[0].content) == 3
    with pytest.raises(ModelFailure) as raised:
        fed(whole(*[text("x")] * 4))
    assert raised.value.message == "The model wrote more than 3 blocks in one message."


@pytest.mark.parametrize(
    "delta",
    [{"type": "signature_delta", "signature": "x" * 10}, {"type": "citations_delta", "citation": {"cited_text": "x"}}],
    ids=["signature", "citations"],
)
def test_what_stands_beside_a_text_counts_too(monkeypatch: pytest.MonkeyPatch, delta: Event) -> None:
    opened = block({"type": "thinking", "thinking": ""}, *[delta] * 20)
    assembly, _ = fed([whole()[0], *opened[:-1]])
    assert not assembly.ends_long(opened[-1])
    monkeypatch.setattr(assembly_module, "LONG_CHARS", 150)
    assert assembly.ends_long(opened[-1])
    monkeypatch.setattr(assembly_module, "MAX_MESSAGE_CHARS", 150)
    with pytest.raises(ModelFailure):
        fed([whole()[0], *opened])


def test_a_signature_in_pieces_is_one() -> None:
    signed = [{"type": "signature_delta", "signature": piece} for piece in ("ab", "", "c")]
    opened = block(
        {"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "Hm"}, *signed
    )
    assert fed(whole(opened))[0].content == [{"type": "thinking", "thinking": "Hm", "signature": "abc"}]


def test_blanks_before_a_text_are_kept_as_far_as_they_say_something(monkeypatch: pytest.MonkeyPatch) -> None:
    assembly, steps = fed(whole(text("\n", " ", "x", " y")))
    assert assembly.text == "\n x y"
    assert [step.text for step in steps if isinstance(step, Delta)] == ["\n x", " y"]
    monkeypatch.setattr(assembly_module, "_MAX_HELD", 10)
    assembly, _ = fed(whole(text(*["\n" * 4] * 1000, "x")))
    assert assembly.text == "\n" * 8 + "x"
    monkeypatch.setattr(assembly_module, "MAX_MESSAGE_CHARS", 100)
    with pytest.raises(ModelFailure):
        fed(whole(text(*["\n" * 4] * 26)))
    assembly, _ = fed(whole(text("\n" * 8, "x" * 92)))
    assert len(assembly.text) == 100


WORDS = st.text(max_size=8)
SAFE_JSON = st.dictionaries(st.text(max_size=3), st.one_of(st.integers(), st.text(max_size=5)), max_size=3)


@st.composite
def blocks(draw: st.DrawFn) -> list[Event]:
    match draw(st.sampled_from(["text", "thinking", "call", "broken", "rubbish"])):
        case "text":
            return text(*draw(st.lists(WORDS, max_size=4)))
        case "thinking":
            return thinking(draw(WORDS), draw(st.one_of(st.none(), st.text(min_size=1, max_size=5))))
        case "call":
            raw = json.dumps(draw(SAFE_JSON))
            at = draw(st.integers(0, len(raw)))
            return tool_use(draw(WORDS), raw[:at], raw[at:], id=draw(st.sampled_from(["a", "b", "", "ä"])))
        case "broken":
            return tool_use(draw(WORDS), draw(WORDS), id=draw(st.sampled_from(["a", "b"])))
        case _:
            events = [
                {"type": "ping"},
                {"type": "content_block_stop", "index": 9},
                {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "lost"}},
                {"type": "weather", "sunny": True},
            ]
            return [draw(st.sampled_from(events))]


@given(st.lists(blocks(), max_size=5), st.data())
def test_wherever_a_stream_is_cut_the_history_can_be_sent(made: list[list[Event]], data: st.DataObject) -> None:
    events = whole(*made)
    cut = data.draw(st.integers(0, len(events)))
    assembly, steps = fed(events[:cut])
    if not assembly.stopped:
        assembly.end_where_it_broke()
    uses = [step for step in steps if isinstance(step, ToolUse)]
    assert [one["id"] for one in assembly.content if one["type"] == "tool_use"] == [use.id for use in uses]
    for use in uses:
        assert assembly.content[use.index]["id"] == use.id
    _check_deltas(assembly, [step for step in steps if isinstance(step, Delta)])
    history = History()
    history.add("user", [{"type": "text", "text": "Hello."}])
    history.add_answer(assembly.content, assembly.encoded, joined(assembly.encoded))
    again = History()
    again.add("user", [{"type": "text", "text": "Hello."}])
    again.add("assistant", assembly.content)
    assert again.encoded() == history.encoded()
    assert again.tool_use_ids == history.tool_use_ids
    results = [{"type": "tool_result", "tool_use_id": use.id, "content": "ok"} for use in uses]
    history.add("user", [*results, {"type": "text", "text": "And?"}])
    body = {"model": "m", "max_tokens": 1, "stream": True, "messages": [json.loads(each) for each in history.encoded()]}
    assert list(problems(body)) == []


def _check_deltas(assembly: Assembly, deltas: list[Delta]) -> None:
    """What clients saw of a text is what is kept of it."""
    told: dict[int, str] = {}
    for delta in deltas:
        assert delta.offset == len(told.get(delta.index, ""))
        told[delta.index] = told.get(delta.index, "") + delta.text
    for index, kept in enumerate(assembly.content):
        if kept["type"] == "text":
            assert told[index] == kept["text"]
