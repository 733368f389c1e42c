"""Positions of values in JSON: found where they are, whatever the text looks like."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ostler.server.settings.json_positions import BadJson, Positions, compute_position, parse

characters = st.characters(codec="utf-8")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(characters),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(characters, max_size=6), inner, max_size=4),
    max_leaves=20,
)


def walk(value: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    yield way, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inner:
        yield from walk(each, (*way, step))


def compute_offset(text: str, line: int, column: int) -> int:
    return sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1


@given(value=values, indent=st.sampled_from([None, 0, 3, "\t"]), ascii_only=st.booleans())
def test_every_value_is_found_where_it_stands(value: Any, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    read, parsed = parse(text.encode())
    assert (read, parsed) == (text, value)
    positions = Positions(text)
    for way, each in walk(value):
        start = compute_offset(text, *positions.find_value(*way))
        assert json.JSONDecoder().raw_decode(text, start)[0] == each


@given(st.text(characters, min_size=1), st.booleans(), st.data())
def test_a_character_of_a_text_is_found_behind_its_escapes(value: str, ascii_only: bool, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(value) - 1))
    text = json.dumps([value], ensure_ascii=ascii_only)
    start = compute_offset(text, *Positions(text).find_value(0, within=index)) if index else 2
    assert json.loads('"' + text[start:-2] + '"') == value[index:]


@given(st.text(st.sampled_from('{}[]",:\\u d8aN1-.\n\ufeff/#')) | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_is_json_or_said_to_be_none_with_a_place_in_it(text: str) -> None:
    found = parse_or_error(text.encode())
    if isinstance(found, BadJson):
        lines = text.split("\n")
        assert 1 <= found.line <= len(lines)
        assert 1 <= found.column <= len(lines[found.line - 1]) + 1
    else:
        Positions(text)


def parse_or_error(data: bytes) -> Any:
    try:
        return parse(data)
    except BadJson as error:
        return error


def test_a_position_counts_from_one() -> None:
    assert [compute_position("ab\nc", index) for index in range(4)] == [(1, 1), (1, 2), (1, 3), (2, 1)]
