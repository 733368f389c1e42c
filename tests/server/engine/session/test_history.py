"""The history as it is sent to the model."""

import base64
import json
from typing import Any

from ostler.protocol.ids import MessageId
from ostler.server.engine.session.history import History
from ostler.storage.repositories.messages import ApiMessage
from ostler.tools.formats.image import image_block


def make_text_blocks(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def decode_history(history: History) -> list[dict[str, Any]]:
    return list(json.loads(b"[" + b",".join(history.encode_pieces()) + b"]"))


def find_cache_marks(message: dict[str, Any]) -> list[int]:
    return [at for at, block in enumerate(message["content"]) if "cache_control" in block]


def test_an_empty_history_sends_nothing() -> None:
    assert History().encode_pieces() == []
    assert not History().ends_with_assistant


def test_the_last_two_user_messages_are_marked_for_the_cache() -> None:
    history = History()
    for number in range(4):
        history.add("user", [*make_text_blocks(f"{number}a"), *make_text_blocks(f"{number}b")])
        history.add("assistant", make_text_blocks("yes"))
    assert [find_cache_marks(message) for message in decode_history(history)] == [[], [], [], [], [1], [], [1], []]


def test_what_was_sent_is_not_changed_by_what_comes_after() -> None:
    history = History()
    history.add("user", make_text_blocks("one"))
    before = decode_history(history)
    history.add("assistant", make_text_blocks("two"))
    history.add("user", make_text_blocks("three"))
    after = decode_history(history)
    assert _strip_cache_marks(after[0]) == _strip_cache_marks(before[0])
    assert [message["role"] for message in after] == ["user", "assistant", "user"]


def test_neighbours_of_one_role_are_one_message() -> None:
    history = History()
    history.add("user", make_text_blocks("one"))
    history.add("user", make_text_blocks("two"))
    history.add("assistant", make_text_blocks("three"))
    history.add("assistant", make_text_blocks("four"))
    one, two = decode_history(history)
    assert [block["text"] for block in one["content"]] == ["one", "two"]
    assert [block["text"] for block in two["content"]] == ["three", "four"]
    assert find_cache_marks(one) == [1]
    assert history.ends_with_assistant
    assert len(history) == 2


def test_a_message_of_nothing_is_not_sent() -> None:
    history = History()
    history.add("user", make_text_blocks("one"))
    history.add("assistant", [])
    assert len(history) == 1


def test_unsigned_thoughts_are_not_sent_back() -> None:
    history = History()
    signed = {"type": "thinking", "thinking": "b", "signature": "s"}
    history.add("assistant", [{"type": "thinking", "thinking": "a"}, signed, *make_text_blocks("c")])
    history.add("user", make_text_blocks("d"))
    history.add("assistant", [{"type": "thinking", "thinking": "only this"}])
    first, second = decode_history(history)
    assert first["content"] == [signed, *make_text_blocks("c")]
    assert second["role"] == "user"


def test_the_ids_of_all_calls_are_known() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
    history = History([ApiMessage(MessageId("m_1"), "user", b'[{"type":"text","text":"x"}]')])
    history.add("assistant", [call])
    assert history.tool_use_ids == {"toolu_1"}


def test_words_that_look_like_json_are_words() -> None:
    history = History()
    text = 'he said "tool_use" and ]} and "thinking"'
    history.add("user", make_text_blocks(text))
    history.add("assistant", make_text_blocks(text))
    assert decode_history(history)[0]["content"][0]["text"] == text
    assert decode_history(history)[1]["content"][0]["text"] == text


def test_a_stored_history_is_sent_as_the_live_one() -> None:
    live = History()
    content = [
        *make_text_blocks("ünï"),
        {"type": "tool_result", "tool_use_id": "t", "content": [*make_text_blocks("x")]},
    ]
    live.add("user", content)
    stored = History(
        [ApiMessage(MessageId("m_1"), "user", json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())]
    )
    assert live.encode_pieces() == stored.encode_pieces()


def _strip_cache_marks(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in message["content"]]


def test_a_long_conversation_is_sent_the_same_however_often_it_was_sent_before() -> None:
    """What is joined for good is what it would be if it were put together now."""
    often = History()
    for number in range(300):
        role = "assistant" if number % 2 else "user"
        often.add(role, make_text_blocks(f"{number} " + "x" * 1000))
        often.encode_pieces()
        if number % 50 == 0:
            once = History()
            for earlier in range(number + 1):
                once.add("assistant" if earlier % 2 else "user", make_text_blocks(f"{earlier} " + "x" * 1000))
            assert b",".join(often.encode_pieces()) == b",".join(once.encode_pieces())
    assert len(often.encode_pieces()) < 150
    assert [at for at, message in enumerate(decode_history(often)) if find_cache_marks(message)] == [296, 298]
    assert len(often) == 300


def test_what_follows_a_long_conversation_can_be_added_to_and_taken_back() -> None:
    history = History()
    for number in range(200):
        history.add("assistant" if number % 2 else "user", make_text_blocks("x" * 2000))
        history.encode_pieces()
    before = decode_history(history)
    history.add("user", make_text_blocks("one"))
    history.add("user", make_text_blocks("two"))
    history.undo_add(json.dumps(make_text_blocks("two"), separators=(",", ":")).encode())
    assert [block["text"] for block in decode_history(history)[-1]["content"]] == ["one"]
    history.undo_add(json.dumps(make_text_blocks("one"), separators=(",", ":")).encode())
    assert decode_history(history) == before
    history.add_encoded("user", b'[{"type":"text","text":"y"}]')
    assert not history.ends_with_assistant


def test_an_image_that_was_stored_under_a_wrong_media_type_is_sent_as_what_it_is() -> None:
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n and the rest").decode()
    result = {"type": "tool_result", "tool_use_id": "t", "content": [image_block("image/jpeg", png)]}
    stored = json.dumps([image_block("image/gif", png), result, image_block("image/png", "aGk=")]).encode()
    (message,) = decode_history(History([ApiMessage(MessageId("m_1"), "user", stored)]))
    first, second, third = message["content"]
    assert first["source"]["media_type"] == "image/png"
    assert second["content"][0]["source"]["media_type"] == "image/png"
    assert "left out" in third["text"]
