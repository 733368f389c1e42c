"""From raw events to blocks that can be stored and sent back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.server.engine.session.history import History, join_blocks
from ostler.server.models import assembler as assembler_module
from ostler.server.models.assembler import Delta, MessageAssembler, StreamItem, ToolUse
from ostler.server.models.provider import ModelFailure
from tests.support.messages_api.validation import find_problems
from tests.support.tables import try_each

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


def make_message(*blocks: list[Event], stop_reason: str = "end_turn") -> list[Event]:
    return [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}},
        *(event for each in blocks for event in each),
        {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


def feed_events(events: list[Event], used_ids: set[str] | None = None) -> tuple[MessageAssembler, list[StreamItem]]:
    assembler = MessageAssembler(used_ids or set())
    return assembler, [step for event in events for step in assembler.feed(event)]


def test_a_whole_message_is_read() -> None:
    assembler, steps = feed_events(
        make_message(text("Hello ", "there"), tool_use("Read", '{"a"', ": 1}"), stop_reason="tool_use")
    )
    assert assembler.stopped
    assert (assembler.stop_reason, assembler.model, assembler.text) == ("tool_use", "m", "Hello there")
    assert (assembler.usage.input_tokens, assembler.usage.output_tokens) == (3, 9)
    assert assembler.content[1] == {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"a": 1}}
    assert [step for step in steps if isinstance(step, ToolUse)] == [ToolUse(1, "toolu_1", "Read", {"a": 1})]
    assert steps[0] == Delta(0, "text", 0, "Hello ")
    assert steps[1] == Delta(0, "text", 6, "there")


def test_facts_of_a_wrong_type_are_not_taken() -> None:
    begin = {"type": "message_start", "message": {"model": 5, "usage": {"input_tokens": 2**63, "output_tokens": -1}}}
    end = {"type": "message_delta", "delta": {"stop_reason": {"why": 5}}}
    assembler, _ = feed_events([begin, *text("Hello"), end, {"type": "message_stop"}])
    assert (assembler.text, assembler.model, assembler.stop_reason) == ("Hello", None, None)
    assert (assembler.usage.input_tokens, assembler.usage.output_tokens) == (0, 0)


def test_a_call_without_input_has_an_empty_object() -> None:
    assembler, steps = feed_events(make_message(tool_use("Read"), tool_use("Read", "", "  ", id="toolu_2")))
    assert [step.input_error for step in steps if isinstance(step, ToolUse)] == [None, None]
    assert [one["input"] for one in assembler.content] == [{}, {}]


@try_each("raw", ["{", "[]", "1", '"x"', "null", '{"a":1}}', "{'a':1}", '{"a":NaN}'])
def test_input_that_is_no_object_is_marked_as_broken(raw: str) -> None:
    assembler, steps = feed_events(make_message(tool_use("Read", raw)))
    [call] = [step for step in steps if isinstance(step, ToolUse)]
    assert call.input == {}
    assert (call.input_error or "").endswith(f"so nothing was run. It was: {raw}")
    assert assembler.content[0]["input"] == {}


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
    assembler, steps = feed_events(make_message(tool_use("Read", raw)))
    [call] = [step for step in steps if isinstance(step, ToolUse)]
    assert call.input == {}
    assert limit in (call.input_error or "")
    assert raw[:200] in (call.input_error or "")
    assert assembler.content[0]["input"] == {}


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
    _, steps = feed_events(make_message(tool_use("Write", json.dumps(given))))
    [call] = [step for step in steps if isinstance(step, ToolUse)]
    assert call.input_error is None
    assert call.input == given


def test_half_a_character_in_the_input_is_broken_json() -> None:
    _, steps = feed_events(make_message(tool_use("Read", '{"a":"\ud800"}')))
    [call] = [step for step in steps if isinstance(step, ToolUse)]
    assert (call.input_error or "").endswith('so nothing was run. It was: {"a":"\ud800"}')


def test_ids_are_unique_in_the_message_and_in_the_history() -> None:
    twice = [*tool_use("Read", "{}"), *tool_use("Read", "{}")]
    assembler, _ = feed_events(make_message(twice), used_ids={"toolu_1"})
    assert [one["id"] for one in assembler.content] == ["toolu_1_2", "toolu_1_3"]


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 300, "a/b.c"])
def test_names_are_made_such_that_the_api_takes_them_back(name: str) -> None:
    assembler, steps = feed_events(make_message(tool_use(name, "{}")))
    [call] = [step for step in steps if isinstance(step, ToolUse)]
    assert call.name == name
    shown = assembler.content[0]["name"]
    assert 1 <= len(shown) <= 128
    assert shown.isascii()
    assert " " not in shown


def test_blanks_in_front_of_words_belong_to_them() -> None:
    assembler, steps = feed_events(make_message(text(" ", "\n", "x", " ")))
    assert assembler.content == [{"type": "text", "text": " \nx "}]
    assert steps[0] == Delta(0, "text", 0, " \nx")


def test_a_text_of_blanks_leaves_no_gap_in_the_numbers() -> None:
    assembler, steps = feed_events(make_message(text("  "), tool_use("Read", "{}")))
    assert [one["type"] for one in assembler.content] == ["tool_use"]
    assert [step.index for step in steps] == [0, 0]


def test_an_error_in_the_stream_is_a_failure_of_its_kind() -> None:
    for kind, expected in (("overloaded_error", "overloaded"), ("rate_limit_error", "rate_limited"), ("odd", "server")):
        with pytest.raises(ModelFailure) as raised:
            feed_events([{"type": "error", "error": {"type": kind, "message": "no"}}])
        assert raised.value.kind == expected


def test_a_message_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler_module, "MAX_MESSAGE_CHARS", 100)
    with pytest.raises(ModelFailure) as raised:
        feed_events(make_message(text(*["x" * 10] * 11)))
    assert raised.value.kind == "garbage"


def test_what_was_open_at_the_end_is_kept_where_it_is_text() -> None:
    for last in (text("half a ", "sentence")[:-1], text("half a ", "sentence")[:-2]):
        assembler, _ = feed_events([make_message()[0], *last])
        assembler.finish_incomplete()
        assert assembler.content[0]["text"].startswith("half a ")
    for last in (tool_use("Read", "{}")[:-1], thinking("Hm", "sig")[:-1]):
        assembler, _ = feed_events([make_message()[0], *last])
        assembler.finish_incomplete()
        assert assembler.content == []


@pytest.fixture(params=[1, 10**9], ids=["long", "short"])
def long_chars(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """From which length on a block is made ahead, on a thread."""
    monkeypatch.setattr(assembler_module, "LONG_CHARS", request.param)
    return int(request.param)


@pytest.mark.parametrize(
    "events",
    [
        make_message(
            text("Hello ", "there"), thinking("Hm", "sig"), tool_use("Read", '{"a"', ": 1}"), tool_use("B", "[")
        ),
        [*make_message(text("never closed"))[:-3], *make_message()[-2:]],
        [*make_message(tool_use("Read", "{}"))[:-3], *make_message()[-2:]],
        make_message(
            block(
                {"type": "server_tool_use", "id": "s", "name": "n"}, {"type": "input_json_delta", "partial_json": "{}"}
            )
        ),
        make_message(block({"type": "", "id": "s"}, {"type": "text_delta", "text": "x"}), text("y")),
    ],
    ids=["blocks", "open text", "open call", "other", "no kind"],
)
def test_a_block_that_is_made_ahead_is_the_same(long_chars: int, events: list[Event]) -> None:
    plainly, steps = feed_events(events)
    ahead, made = MessageAssembler(set()), 0
    steps_ahead: list[StreamItem] = []
    for event in events:
        if ahead.completes_long_block(event):
            ahead.complete_ahead()
            made += 1
        steps_ahead += ahead.feed(event)
    assert (ahead.content, ahead.encoded, steps_ahead) == (plainly.content, plainly.encoded, steps)
    assert [json.loads(each) for each in plainly.encoded] == plainly.content
    kinds = {one["type"] for one in plainly.content}
    assert bool(made) == (bool(kinds) and long_chars == 1)


@pytest.mark.usefixtures("long_chars")
def test_a_text_that_breaks_off_is_made_ahead_and_a_call_is_not() -> None:
    for last, kept in ((text("half a ", "sentence")[:-1], ["text"]), (tool_use("Read", "{}")[:-1], [])):
        assembler, _ = feed_events([make_message()[0], *last])
        if assembler.completes_long_block():
            assembler.complete_ahead()
        assembler.finish_incomplete()
        assert [one["type"] for one in assembler.content] == kept
        assert [json.loads(each) for each in assembler.encoded] == assembler.content


def test_what_is_said_of_one_block_never_becomes_a_part_of_another() -> None:
    half = tool_use("Bash", '{"command": "echo ')[:-1]
    rest = {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": 'evil"}'}}
    for odd in (rest, {"type": "content_block_stop", "index": 7}, tool_use("Bash", "{}")[0]):
        assembler, _ = feed_events([make_message()[0], *half])
        with pytest.raises(ValueError, match=r"is open|in the middle of another"):
            list(assembler.feed(odd))
        assembler.finish_incomplete()
        assert assembler.content == []


def test_blocks_without_numbers_are_taken_in_turn() -> None:
    events = [
        {name: value for name, value in event.items() if name != "index"}
        for event in make_message(text("a"), text("b"))
    ]
    assert feed_events(events)[0].text == "ab"


def test_a_text_that_was_not_closed_ends_where_the_next_block_begins() -> None:
    assembler, _ = feed_events([*make_message(text("said"))[:-3], *tool_use("Read", "{}"), *make_message()[-2:]])
    assert [one["type"] for one in assembler.content] == ["text", "tool_use"]


def test_a_message_of_endless_blocks_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler_module, "MAX_BLOCKS", 3)
    assert len(feed_events(make_message(*[text("x")] * 3))[0].content) == 3
    with pytest.raises(ModelFailure) as raised:
        feed_events(make_message(*[text("x")] * 4))
    assert raised.value.message == "The model wrote more than 3 blocks in one message."


@pytest.mark.parametrize(
    "delta",
    [{"type": "signature_delta", "signature": "x" * 10}, {"type": "citations_delta", "citation": {"cited_text": "x"}}],
    ids=["signature", "citations"],
)
def test_what_stands_beside_a_text_counts_too(monkeypatch: pytest.MonkeyPatch, delta: Event) -> None:
    opened = block({"type": "thinking", "thinking": ""}, *[delta] * 20)
    assembler, _ = feed_events([make_message()[0], *opened[:-1]])
    assert not assembler.completes_long_block(opened[-1])
    monkeypatch.setattr(assembler_module, "LONG_CHARS", 150)
    assert assembler.completes_long_block(opened[-1])
    monkeypatch.setattr(assembler_module, "MAX_MESSAGE_CHARS", 150)
    with pytest.raises(ModelFailure):
        feed_events([make_message()[0], *opened])


def test_a_signature_in_pieces_is_one() -> None:
    signed = [{"type": "signature_delta", "signature": piece} for piece in ("ab", "", "c")]
    opened = block(
        {"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "Hm"}, *signed
    )
    assert feed_events(make_message(opened))[0].content == [{"type": "thinking", "thinking": "Hm", "signature": "abc"}]


def test_blanks_before_a_text_are_kept_as_far_as_they_say_something(monkeypatch: pytest.MonkeyPatch) -> None:
    assembler, steps = feed_events(make_message(text("\n", " ", "x", " y")))
    assert assembler.text == "\n x y"
    assert [step.text for step in steps if isinstance(step, Delta)] == ["\n x", " y"]
    monkeypatch.setattr(assembler_module, "_MAX_HELD", 10)
    assembler, _ = feed_events(make_message(text(*["\n" * 4] * 1000, "x")))
    assert assembler.text == "\n" * 8 + "x"
    monkeypatch.setattr(assembler_module, "MAX_MESSAGE_CHARS", 100)
    with pytest.raises(ModelFailure):
        feed_events(make_message(text(*["\n" * 4] * 26)))
    assembler, _ = feed_events(make_message(text("\n" * 8, "x" * 92)))
    assert len(assembler.text) == 100


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
    events = make_message(*made)
    cut = data.draw(st.integers(0, len(events)))
    assembler, steps = feed_events(events[:cut])
    if not assembler.stopped:
        assembler.finish_incomplete()
    uses = [step for step in steps if isinstance(step, ToolUse)]
    assert [one["id"] for one in assembler.content if one["type"] == "tool_use"] == [use.id for use in uses]
    for use in uses:
        assert assembler.content[use.index]["id"] == use.id
    _check_deltas(assembler, [step for step in steps if isinstance(step, Delta)])
    history = History()
    history.add("user", [{"type": "text", "text": "Hello."}])
    history.add_answer(assembler.content, assembler.encoded, join_blocks(assembler.encoded))
    again = History()
    again.add("user", [{"type": "text", "text": "Hello."}])
    again.add("assistant", assembler.content)
    assert again.encode_pieces() == history.encode_pieces()
    assert again.tool_use_ids == history.tool_use_ids
    results = [{"type": "tool_result", "tool_use_id": use.id, "content": "ok"} for use in uses]
    history.add("user", [*results, {"type": "text", "text": "And?"}])
    body = {
        "model": "m",
        "max_tokens": 1,
        "stream": True,
        "messages": [json.loads(each) for each in history.encode_pieces()],
    }
    assert list(find_problems(body)) == []


def _check_deltas(assembler: MessageAssembler, deltas: list[Delta]) -> None:
    """What clients saw of a text is what is kept of it."""
    told: dict[int, str] = {}
    for delta in deltas:
        assert delta.offset == len(told.get(delta.index, ""))
        told[delta.index] = told.get(delta.index, "") + delta.text
    for index, kept in enumerate(assembler.content):
        if kept["type"] == "text":
            assert told[index] == kept["text"]
