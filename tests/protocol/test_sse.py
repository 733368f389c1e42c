"""Parsing server-sent events, wherever the stream of bytes is cut into chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.protocol.sse import Frame, SseParser


def parse_frames(*chunks: bytes) -> list[Frame]:
    parser = SseParser()
    return [frame for chunk in chunks for frame in parser.feed(chunk)]


def test_a_frame_has_its_type_its_data_and_its_id() -> None:
    assert parse_frames(b"id: 7\nevent: notice\ndata: {}\n\n") == [Frame("notice", b"{}", "7")]


def test_a_frame_without_a_type_is_a_message() -> None:
    assert parse_frames(b"data: x\n\n") == [Frame("message", b"x", None)]


def test_the_type_is_forgotten_after_each_frame_and_the_id_is_kept() -> None:
    frames = parse_frames(b"id: 1\nevent: a\ndata: x\n\ndata: y\n\n")
    assert frames == [Frame("a", b"x", "1"), Frame("message", b"y", "1")]


def test_several_data_lines_are_joined_by_line_ends() -> None:
    assert parse_frames(b"data: one\ndata:\ndata: three\n\n")[0].data == b"one\n\nthree"


def test_comments_and_unknown_fields_are_passed_over() -> None:
    assert parse_frames(b": still here\n\nretry: 5\nfuture: x\ndata: y\n\n") == [Frame("message", b"y", None)]


def test_a_frame_without_data_is_no_frame() -> None:
    assert parse_frames(b"event: a\nid: 3\n\ndata: x\n\n") == [Frame("message", b"x", "3")]


def test_only_one_space_after_the_colon_is_taken_away() -> None:
    assert parse_frames(b"data:  x\n\ndata:y\n\n") == [Frame("message", b" x", None), Frame("message", b"y", None)]


def test_a_field_without_a_colon_has_an_empty_value() -> None:
    assert parse_frames(b"data\n\n") == [Frame("message", b"", None)]


def test_an_id_with_a_nul_is_ignored() -> None:
    assert parse_frames(b"id: 1\ndata: x\n\nid: 2\0\ndata: y\n\n")[1].id == "1"


def test_an_empty_id_takes_the_old_one_back() -> None:
    assert parse_frames(b"id: 1\ndata: x\n\nid\ndata: y\n\n")[1].id == ""


def test_a_byte_order_mark_at_the_start_is_taken_away() -> None:
    assert parse_frames(b"\xef\xbb\xbfdata: x\n\n") == [Frame("message", b"x", None)]


def test_an_unfinished_frame_is_not_given() -> None:
    assert parse_frames(b"data: x\n") == []


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_kind_of_line_end_ends_a_line(end: bytes) -> None:
    text = end.join([b"event: a", b"data: x", b"", b"data: y", b"", b""])
    assert parse_frames(text) == [Frame("a", b"x", None), Frame("message", b"y", None)]


def test_a_lone_cr_ends_its_line_at_once() -> None:
    parser = SseParser()
    assert parser.feed(b"data: x\r\r") == [Frame("message", b"x", None)]
    assert parser.feed(b"\ndata: y\r\n\r\n") == [Frame("message", b"y", None)]


texts = st.text(alphabet=st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=40)
frames = st.builds(
    Frame,
    event=texts.filter(bool),
    data=st.lists(texts, min_size=1, max_size=4).map(lambda lines: "\n".join(lines).encode()),
    id=texts,
)


def encode_frame(frame: Frame, end: str, comment: str) -> bytes:
    data = [f"data: {line}" for line in frame.data.decode().split("\n")]
    return (end.join([f": {comment}", f"id: {frame.id}", f"event: {frame.event}", *data]) + end * 2).encode()


@given(st.lists(st.tuples(frames, st.sampled_from(["\n", "\r\n", "\r"]), texts)), st.data())
def test_what_is_encoded_comes_back_wherever_it_is_cut(sent: list[tuple[Frame, str, str]], data: st.DataObject) -> None:
    stream = b"".join(encode_frame(*one) for one in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    chunks = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse_frames(*chunks) == [frame for frame, _, _ in sent]


@given(st.binary(max_size=300), st.integers(1, 7))
def test_rubbish_is_read_the_same_in_one_piece_and_in_many(rubbish: bytes, size: int) -> None:
    pieces = [rubbish[at : at + size] for at in range(0, len(rubbish), size)]
    assert parse_frames(*pieces) == parse_frames(rubbish)
