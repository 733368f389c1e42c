"""Ids: a prefix for the kind, sortable by time, never twice."""

import re
from concurrent.futures import ThreadPoolExecutor

from ostler.protocol.ids import (
    MessageId,
    call_id,
    new_ask_id,
    new_client_id,
    new_message_id,
    new_result_id,
    new_session_id,
    new_turn_id,
)


def test_each_kind_has_its_prefix() -> None:
    made = [new_session_id(), new_turn_id(), new_message_id(), new_ask_id(), new_result_id(), new_client_id()]
    assert [re.fullmatch(r"([a-z])_[0-9a-z]{20}", one)[1] for one in made] == list("stmkrc")  # type: ignore[index]


def test_ids_sort_as_they_were_made_also_within_a_millisecond() -> None:
    made = [new_session_id() for _ in range(5000)]
    assert made == sorted(made)


def test_no_id_is_made_twice_by_several_threads() -> None:
    with ThreadPoolExecutor(4) as pool:
        made = [one for ids in pool.map(lambda _: [new_message_id() for _ in range(2000)], range(4)) for one in ids]
    assert len(set(made)) == len(made)


def test_a_call_is_named_by_its_message_and_place() -> None:
    assert call_id(MessageId("m_1"), 3) == "m_1#3"
