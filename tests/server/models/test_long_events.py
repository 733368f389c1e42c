"""Events of a provider that says much at once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.protocol.errors import InvalidRequest, ParseError
from ostler.server.models import long_events
from ostler.server.models.assembler import Assembly, Delta
from ostler.server.models.long_events import check_event, in_pieces

Event = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _few_characters_are_many() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_events, "PIECE_CHARS", 3)
        yield


def started(block: Event) -> Event:
    return {"type": "content_block_start", "index": 0, "content_block": block}


def extended(delta: Event) -> Event:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


MESSAGES = st.one_of(
    st.builds(
        lambda first, more: [
            started({"type": "text", "text": first}),
            extended({"type": "text_delta", "text": more}),
        ],
        st.text(max_size=9),
        st.text(max_size=9),
    ),
    st.builds(
        lambda first, more: [
            started({"type": "thinking", "thinking": first, "signature": "s"}),
            extended({"type": "thinking_delta", "thinking": more}),
            extended({"type": "signature_delta", "signature": "s"}),
        ],
        st.text(max_size=9),
        st.text(max_size=9),
    ),
    st.builds(
        lambda name: [
            started({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}),
            extended({"type": "input_json_delta", "partial_json": f'{{"file_path": "/{name}"}}'}),
        ],
        st.text(alphabet="abc", max_size=9),
    ),
    st.just([started({"type": "redacted_thinking", "data": "x" * 20}), {"type": "ping"}]),
    st.just([extended({"type": "text_delta", "text": None}), extended({"type": "odd"}), {"type": "error"}][:2]),
)


def read(events: list[Event]) -> tuple[list[Event], str]:
    assembly = Assembly(())
    steps = [step for event in [*events, {"type": "content_block_stop"}] for step in assembly.feed(event)]
    return assembly.content, "".join(step.text for step in steps if isinstance(step, Delta))


@given(MESSAGES)
def test_pieces_say_what_the_event_said(events: list[Event]) -> None:
    pieces = [piece for event in events for piece in in_pieces(event)]
    assert read(pieces) == read(events)


def test_no_piece_is_longer_than_what_is_told_at_once() -> None:
    found = list(in_pieces(extended({"type": "text_delta", "text": "abcdefgh"})))
    assert [event["delta"]["text"] for event in found] == ["abc", "def", "gh"]
    assert all(event["index"] == 0 for event in found)


def test_an_event_is_bounded_before_it_is_read() -> None:
    check_event(b'{"type": "ping"}')
    with pytest.raises(InvalidRequest):
        check_event(b'{"input":[' + b"1," * 200_000 + b"1]}")
    with pytest.raises(ParseError):
        check_event(b'{"input":' + b"[" * 100_000)
