"""What a line means as the answer to an ask."""

from typing import Any

import pytest

from ostler.clients.cli.answering import Answering, Meaning
from ostler.protocol.ask import (
    Accept,
    Allow,
    AllowAlways,
    Approve,
    Cancel,
    Decline,
    Deny,
    GiveAnswers,
    Reject,
    RestrictFolder,
    TrustFolder,
)
from ostler.protocol.shapes import Ask

BASE: dict[str, Any] = {
    "id": "k_1",
    "session_id": "s_1",
    "root_id": "s_1",
    "status": "open",
    "choices": ["allow", "allow_always", "deny", "deny_always"],
    "suggestions": [{"rule": "Bash(ls)", "scope": "session"}, {"rule": "Bash(ls)", "scope": "local"}],
    "opened_at": "2026-01-01T00:00:00.000Z",
}
CALL = {"call_id": "m_1#0", "tool": "Bash", "input": {"command": "ls"}, "summary": "ls"}
QUESTIONS = [
    {"question": "Which database?", "options": [{"label": "SQLite", "description": "one file"}, {"label": "Other"}]},
    {"question": "Which parts?", "multiSelect": True, "options": [{"label": "a"}, {"label": "b"}, {"label": "c"}]},
]


def answering(kind: str, **fields: Any) -> Answering:
    return Answering(Ask.model_validate({**BASE, "kind": kind, **fields}))


@pytest.mark.parametrize(
    ("kind", "line", "answer"),
    [
        ("permission", "y", Allow()),
        ("permission", " Yes ", Allow()),
        ("permission", "a", AllowAlways()),
        ("permission", "always", AllowAlways()),
        ("permission", "l", AllowAlways(scope="local")),
        ("permission", "n", Deny()),
        ("permission", "d use pnpm", Deny(message="use pnpm")),
        ("permission", 'e {"command": "pwd"}', Allow(input={"command": "pwd"})),
        ("plan", "y", Approve()),
        ("plan", "a", Approve(mode="acceptEdits")),
        ("plan", "n", Reject()),
        ("plan", "d too long", Reject(message="too long")),
        ("trust", "t", TrustFolder()),
        ("trust", "trust", TrustFolder()),
        ("trust", "y", TrustFolder()),
        ("trust", "r", RestrictFolder()),
        ("trust", "restrict", RestrictFolder()),
        ("trust", "n", RestrictFolder()),
        ("elicitation", 'y {"name": "x"}', Accept(content={"name": "x"})),
        ("elicitation", "y", Accept(content=None)),
        ("elicitation", "n", Decline()),
        ("elicitation", "c", Cancel()),
    ],
)
def test_a_line_is_an_answer(kind: str, line: str, answer: Any) -> None:
    assert answering(kind, call=CALL).take(line) == answer


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("permission", ""),
        ("permission", "yes please do"),
        ("permission", "no way"),
        ("permission", "do it later"),
        ("permission", "x"),
        ("plan", "e {}"),
        ("trust", "trust me"),
        ("trust", "a"),
        ("elicitation", "y nonsense"),
    ],
)
def test_anything_else_is_no_answer(kind: str, line: str) -> None:
    assert answering(kind, call=CALL).take(line) is Meaning.OTHER


def test_always_in_the_folder_is_a_key_only_where_that_is_suggested() -> None:
    ask = answering("permission", call=CALL, suggestions=BASE["suggestions"][:1])
    assert (ask.prompt, ask.take("l"), ask.take("a")) == ("[y/a/n/d/e] ", Meaning.OTHER, AllowAlways())
    assert ask.shown()[-1][0] == "  [a] always in this session: Bash(ls)"


def test_words_can_follow_on_a_line_of_their_own() -> None:
    ask = answering("permission", call=CALL)
    assert ask.take("d") is Meaning.MORE
    assert (ask.prompt, ask.keys) == ("words: ", "")
    assert ask.take("y") == Deny(message="y")


def test_an_empty_line_goes_back_to_the_keys() -> None:
    ask = answering("permission", call=CALL)
    ask.take("d")
    assert ask.take("  ") is Meaning.MORE
    assert ask.take("y") == Allow()


def test_the_input_is_there_to_be_changed_and_asked_for_again_until_it_is_json() -> None:
    ask = answering("permission", call=CALL)
    assert ask.take("e") is Meaning.MORE
    assert ask.fill == '{"command": "ls"}'
    assert ask.take('{"command": ') is Meaning.MORE
    assert ask.fill == '{"command": '
    assert ask.take('{"command": "pwd"}') == Allow(input={"command": "pwd"})


def test_questions_are_answered_one_after_the_other_by_number_or_in_words() -> None:
    ask = answering("question", questions=QUESTIONS)
    assert "  1  SQLite: one file" in [text for text, _ in ask.shown()]
    assert ask.take("1") is Meaning.MORE
    assert "  Which parts?" in [text for text, _ in ask.more()]
    assert ask.take("1, 3") == GiveAnswers(answers={"Which database?": ["SQLite"], "Which parts?": ["a", "c"]})


def test_a_question_takes_words_of_ones_own_and_can_be_declined() -> None:
    assert answering("question", questions=QUESTIONS[:1]).take("7") == GiveAnswers(answers={"Which database?": ["7"]})
    assert answering("question", questions=QUESTIONS[:1]).take("-") == Decline()


def test_what_would_be_done_is_shown_in_full_sight() -> None:
    shown = [text for text, _ in answering("permission", call=CALL, message="May it?", reason="Because.").shown()]
    assert shown[:3] == ["? May it?", "  command: ls", "  Because."]
    patch = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n"
    changed = [text for text, _ in answering("permission", call=CALL, diff=patch, agent={"kind": "scout"}).shown()]
    assert changed[0] == "? scout: May it?"
    assert changed[1:4] == ["  @@ -1 +1 @@", "  -old", "  +new"]
