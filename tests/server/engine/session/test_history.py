"""The conversation as the model is sent it."""

import json
from typing import Any

from ostler.protocol.ids import MessageId
from ostler.server.engine.session.history import History
from ostler.storage.repositories.messages import ApiMessage


def words(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def decoded(history: History) -> list[dict[str, Any]]:
    return list(json.loads(b"[" + b",".join(history.encoded()) + b"]"))


def cached(message: dict[str, Any]) -> list[int]:
    return [at for at, block in enumerate(message["content"]) if "cache_control" in block]


def test_an_empty_history_sends_nothing() -> None:
    assert History().encoded() == []
    assert not History().ends_with_assistant


def test_the_last_two_user_messages_are_marked_for_the_cache() -> None:
    history = History()
    for number in range(4):
        history.add("user", [*words(f"{number}a"), *words(f"{number}b")])
        history.add("assistant", words("yes"))
    assert [cached(message) for message in decoded(history)] == [[], [], [], [], [1], [], [1], []]


def test_what_was_sent_is_not_changed_by_what_comes_after() -> None:
    history = History()
    history.add("user", words("one"))
    before = decoded(history)
    history.add("assistant", words("two"))
    history.add("user", words("three"))
    after = decoded(history)
    assert _bare(after[0]) == _bare(before[0])
    assert [message["role"] for message in after] == ["user", "assistant", "user"]


def test_neighbours_of_one_role_are_one_message() -> None:
    history = History()
    history.add("user", words("one"))
    history.add("user", words("two"))
    history.add("assistant", words("three"))
    history.add("assistant", words("four"))
    one, two = decoded(history)
    assert [block["text"] for block in one["content"]] == ["one", "two"]
    assert [block["text"] for block in two["content"]] == ["three", "four"]
    assert cached(one) == [1]
    assert history.ends_with_assistant
    assert len(history) == 2


def test_a_message_of_nothing_is_not_sent() -> None:
    history = History()
    history.add("user", words("one"))
    history.add("assistant", [])
    assert len(history) == 1


def test_unsigned_thoughts_are_not_sent_back() -> None:
    history = History()
    signed = {"type": "thinking", "thinking": "b", "signature": "s"}
    history.add("assistant", [{"type": "thinking", "thinking": "a"}, signed, *words("c")])
    history.add("user", words("d"))
    history.add("assistant", [{"type": "thinking", "thinking": "only this"}])
    first, second = decoded(history)
    assert first["content"] == [signed, *words("c")]
    assert second["role"] == "user"


def test_the_ids_of_all_calls_are_known() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
    history = History([ApiMessage(MessageId("m_1"), "user", b'[{"type":"text","text":"x"}]')])
    history.add("assistant", [call])
    assert history.tool_use_ids == {"toolu_1"}


def test_words_that_look_like_json_are_words() -> None:
    history = History()
    text = 'he said "tool_use" and ]} and "thinking"'
    history.add("user", words(text))
    history.add("assistant", words(text))
    assert decoded(history)[0]["content"][0]["text"] == text
    assert decoded(history)[1]["content"][0]["text"] == text


def test_a_stored_history_is_sent_as_the_live_one() -> None:
    live = History()
    content = [*words("ünï"), {"type": "tool_result", "tool_use_id": "t", "content": [*words("x")]}]
    live.add("user", content)
    stored = History(
        [ApiMessage(MessageId("m_1"), "user", json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())]
    )
    assert live.encoded() == stored.encoded()


def _bare(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in message["content"]]


def test_a_long_conversation_is_sent_the_same_however_often_it_was_sent_before() -> None:
    """What is joined for good is what it would be if it were put together now."""
    often = History()
    for number in range(300):
        role = "assistant" if number % 2 else "user"
        often.add(role, words(f"{number} " + "x" * 1000))
        often.encoded()
        if number % 50 == 0:
            once = History()
            for earlier in range(number + 1):
                once.add("assistant" if earlier % 2 else "user", words(f"{earlier} " + "x" * 1000))
            assert b",".join(often.encoded()) == b",".join(once.encoded())
    assert len(often.encoded()) < 150
    assert [at for at, message in enumerate(decoded(often)) if cached(message)] == [296, 298]
    assert len(often) == 300


def test_what_follows_a_long_conversation_can_be_added_to_and_taken_back() -> None:
    history = History()
    for number in range(200):
        history.add("assistant" if number % 2 else "user", words("x" * 2000))
        history.encoded()
    before = decoded(history)
    history.add("user", words("one"))
    history.add("user", words("two"))
    history.take_back(json.dumps(words("two"), separators=(",", ":")).encode())
    assert [block["text"] for block in decoded(history)[-1]["content"]] == ["one"]
    history.take_back(json.dumps(words("one"), separators=(",", ":")).encode())
    assert decoded(history) == before
    history.add_encoded("user", b'[{"type":"text","text":"y"}]')
    assert not history.ends_with_assistant
