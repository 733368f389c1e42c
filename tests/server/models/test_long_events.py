"""Events of a provider that are very long: they are split into pieces."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.protocol.errors import InvalidRequest, ParseError
from ostler.server.models import long_events
from ostler.server.models.assembler import Delta, MessageAssembler
from ostler.server.models.long_events import check_event, split_event

Event = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _few_characters_are_many() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_events, "PIECE_CHARS", 3)
        yield


def make_start_event(block: Event) -> Event:
    return {"type": "content_block_start", "index": 0, "content_block": block}


def make_delta_event(delta: Event) -> Event:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


MESSAGES = st.one_of(
    st.builds(
        lambda first, more: [
            make_start_event({"type": "text", "text": first}),
            make_delta_event({"type": "text_delta", "text": more}),
        ],
        st.text(max_size=9),
        st.text(max_size=9),
    ),
    st.builds(
        lambda first, more: [
            make_start_event({"type": "thinking", "thinking": first, "signature": "s"}),
            make_delta_event({"type": "thinking_delta", "thinking": more}),
            make_delta_event({"type": "signature_delta", "signature": "s"}),
        ],
        st.text(max_size=9),
        st.text(max_size=9),
    ),
    st.builds(
        lambda name: [
            make_start_event({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}),
            make_delta_event({"type": "input_json_delta", "partial_json": f'{{"file_path": "/{name}"}}'}),
        ],
        st.text(alphabet="abc", max_size=9),
    ),
    st.just([make_start_event({"type": "redacted_thinking", "data": "x" * 20}), {"type": "ping"}]),
    st.just(
        [make_delta_event({"type": "text_delta", "text": None}), make_delta_event({"type": "odd"}), {"type": "error"}][
            :2
        ]
    ),
)


def assemble(events: list[Event]) -> tuple[list[Event], str]:
    assembler = MessageAssembler(())
    steps = [step for event in [*events, {"type": "content_block_stop"}] for step in assembler.feed(event)]
    return assembler.content, "".join(step.text for step in steps if isinstance(step, Delta))


@given(MESSAGES)
def test_pieces_say_what_the_event_said(events: list[Event]) -> None:
    pieces = [piece for event in events for piece in split_event(event)]
    assert assemble(pieces) == assemble(events)


def test_no_piece_is_longer_than_what_is_told_at_once() -> None:
    found = list(split_event(make_delta_event({"type": "text_delta", "text": "abcdefgh"})))
    assert [event["delta"]["text"] for event in found] == ["abc", "def", "gh"]
    assert all(event["index"] == 0 for event in found)


def test_an_event_is_bounded_before_it_is_read() -> None:
    check_event(b'{"type": "ping"}')
    with pytest.raises(InvalidRequest):
        check_event(b'{"input":[' + b"1," * 200_000 + b"1]}")
    with pytest.raises(ParseError):
        check_event(b'{"input":' + b"[" * 100_000)
