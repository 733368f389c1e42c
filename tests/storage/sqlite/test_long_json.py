"""Long texts are encoded as JSON piece by piece, with the same bytes as in one go."""

import json
import threading
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.protocol.extent import count_chars
from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.shapes import Call
from ostler.storage.sqlite import long_json

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


@pytest.fixture(scope="module", autouse=True)
def _small_limits() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_json, "LONG_CHARS", 4)
        patch.setattr(long_json, "_PIECE_CHARS", 3)
        yield


def build_call(given: dict[str, Any], **more: Any) -> Call:
    return Call(
        call_id=CallId("m_1#0"),
        tool_use_id="toolu_1",
        session_id=SessionId("s_1"),
        tool="Bash",
        input=given,
        status="queued",
        **more,
    )


@given(JSON)
def test_data_is_encoded_as_it_would_be_at_once(value: Any) -> None:
    assert long_json.encode_plain(value) == orjson.dumps(value)


@given(st.dictionaries(TEXTS, JSON | st.integers(-(2**80), 2**80), max_size=3), JSON)
def test_a_thing_of_the_wire_is_encoded_as_it_encodes_itself(given: dict[str, Any], output: Any) -> None:
    one = build_call(given, output=output)
    assert long_json.encode(one) == one.encoded()


@given(JSON, st.integers(1, 30))
def test_characters_are_counted_as_far_as_it_matters(value: Any, enough: int) -> None:
    whole = count_chars(value, 10**9)
    found = count_chars(value, enough)
    assert found == whole if whole < enough else enough <= found <= whole


def test_a_number_of_more_than_64_bits_is_no_trouble() -> None:
    """A schema makes a whole number of 1e25, which the model wrote; orjson takes none of that size."""
    value = {"text": "a long one", "number": 2**70}
    assert json.loads(long_json.encode_plain(value)) == value


def test_names_count_too() -> None:
    assert count_chars({"a name": 1}, 100) == 6
    assert count_chars([{"a name": "x"}], 100) == 7


def test_others_go_on_while_a_long_text_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece is encoded by a call of its own: between two of them other threads can run."""
    monkeypatch.setattr(long_json, "_PIECE_CHARS", 1000)
    steps: list[int] = []
    dumps = orjson.dumps

    def counted(value: Any, *options: Any) -> bytes:
        steps.append(len(value) if isinstance(value, str) else 0)
        return dumps(value, *options)

    class Counting:
        Fragment = orjson.Fragment
        dumps = staticmethod(counted)

    monkeypatch.setattr(long_json, "orjson", Counting)
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(long_json.encode_plain({"command": "a\n" * 5000})))
    thread.start()
    thread.join()
    assert orjson.loads(found[0]) == {"command": "a\n" * 5000}
    assert max(steps) == 1000
