"""Pieces of messages in progress, each letter once."""

from hypothesis import given
from hypothesis import strategies as st

from ostler.clients.sdk.deltas import DeltaFilter
from ostler.protocol.events import Event


def make_event(kind: str, data: dict[str, object]) -> Event:
    time = "2026-01-01T00:00:00.000Z"
    return Event(cursor=None, session_id=None, root_id=None, time=time, type=kind, data=data)


def make_delta(offset: int, text: str, message_id: str = "m_1", index: int = 0) -> Event:
    data = {"message_id": message_id, "index": index, "kind": "text", "offset": offset, "text": text}
    return make_event("message.delta", data)


def filter_deltas(events: list[Event]) -> list[tuple[int, str]]:
    filtered = DeltaFilter()
    news = [found for one in events if (found := filtered.drop_seen(one)) is not None]
    return [(one.data["offset"], one.data["text"]) for one in news if one.type == "message.delta"]


def test_a_piece_that_was_told_is_dropped() -> None:
    assert filter_deltas([make_delta(0, "ab"), make_delta(2, "cd"), make_delta(0, "ab"), make_delta(2, "cd")]) == [
        (0, "ab"),
        (2, "cd"),
    ]


def test_a_message_given_again_from_its_start_is_cut_to_what_is_new() -> None:
    assert filter_deltas([make_delta(0, "ab"), make_delta(0, "abcd")]) == [(0, "ab"), (2, "cd")]


def test_a_piece_after_a_hole_is_told_as_it_is() -> None:
    assert filter_deltas([make_delta(0, "ab"), make_delta(9, "z")]) == [(0, "ab"), (9, "z")]


def test_blocks_and_messages_are_told_apart() -> None:
    assert filter_deltas([make_delta(0, "a"), make_delta(0, "b", index=1), make_delta(0, "c", message_id="m_2")]) == [
        (0, "a"),
        (0, "b"),
        (0, "c"),
    ]


def test_a_completed_message_is_forgotten() -> None:
    done = make_event("message.completed", {"message": {"id": "m_1"}})
    assert filter_deltas([make_delta(0, "ab"), done, make_delta(0, "ab")]) == [(0, "ab"), (0, "ab")]


def test_other_events_pass() -> None:
    notice = make_event("notice", {"level": "info", "text": "x"})
    assert DeltaFilter().drop_seen(notice) is notice


@given(st.text(min_size=1, max_size=30), st.data())
def test_a_stream_that_breaks_anywhere_and_starts_over_tells_the_text_once(text: str, data: st.DataObject) -> None:
    events: list[Event] = []
    for _ in range(data.draw(st.integers(1, 4))):
        seen = data.draw(st.integers(0, len(text)))
        events.append(make_delta(0, text[:seen]))
        until = data.draw(st.integers(seen, len(text)))
        events += [make_delta(at, text[at]) for at in range(seen, until)]
    events.append(make_delta(0, text))
    assert "".join(piece for _, piece in filter_deltas(events)) == text
