"""What a line means as the answer to an ask."""

from typing import Any

from ostler.clients.cli.chat.ask_prompt import AskPrompt, ReplyKind
from ostler.clients.cli.render.ask import ScreenArea
from ostler.protocol.ask import (
    Accept,
    Allow,
    AllowAlways,
    Approve,
    Cancel,
    Decline,
    Deny,
    DenyAlways,
    GiveAnswers,
    Reject,
    RestrictFolder,
    TrustFolder,
)
from ostler.protocol.shapes import Ask
from tests.support.tables import try_each

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


def make_prompt(kind: str, **fields: Any) -> AskPrompt:
    return AskPrompt(Ask.model_validate({**BASE, "kind": kind, **fields}))


@try_each(
    ("kind", "line", "answer"),
    [
        ("permission", "y", Allow()),
        ("permission", " Yes ", Allow()),
        ("permission", "a", AllowAlways()),
        ("permission", "always", AllowAlways()),
        ("permission", "l", AllowAlways(scope="local")),
        ("permission", "n", Deny()),
        ("permission", "x", DenyAlways()),
        ("permission", "never", DenyAlways()),
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
    assert make_prompt(kind, call=CALL).parse_line(line) == answer


@try_each(
    ("kind", "line"),
    [
        ("permission", ""),
        ("permission", "yes please do"),
        ("permission", "no way"),
        ("permission", "do it later"),
        ("permission", "z"),
        ("plan", "e {}"),
        ("trust", "trust me"),
        ("trust", "a"),
        ("elicitation", "y nonsense"),
    ],
)
def test_anything_else_is_no_answer(kind: str, line: str) -> None:
    assert make_prompt(kind, call=CALL).parse_line(line) is ReplyKind.OTHER


def test_always_in_the_folder_is_a_key_only_where_that_is_suggested() -> None:
    ask = make_prompt("permission", call=CALL, suggestions=BASE["suggestions"][:1])
    assert (ask.prompt, ask.parse_line("l"), ask.parse_line("a")) == ("[y/a/n/x/d/e] ", ReplyKind.OTHER, AllowAlways())
    assert [line for line, _ in ask.render()[-2:]] == [
        "  [a] always in this session  [x] never again",
        "  a and x remember the rule Bash(ls)",
    ]


def test_words_can_follow_on_a_line_of_their_own() -> None:
    ask = make_prompt("permission", call=CALL)
    assert ask.parse_line("d") is ReplyKind.MORE
    assert (ask.prompt, ask.keys) == ("words: ", "")
    assert ask.parse_line("y") == Deny(message="y")


def test_an_empty_line_goes_back_to_the_keys() -> None:
    ask = make_prompt("permission", call=CALL)
    ask.parse_line("d")
    assert ask.parse_line("  ") is ReplyKind.MORE
    assert ask.parse_line("y") == Allow()


def test_the_input_is_there_to_be_changed_and_asked_for_again_until_it_is_json() -> None:
    ask = make_prompt("permission", call=CALL)
    assert ask.parse_line("e") is ReplyKind.MORE
    assert ask.prefill == '{"command": "ls"}'
    assert ask.parse_line('{"command": ') is ReplyKind.MORE
    assert ask.prefill == '{"command": '
    assert ask.parse_line('{"command": "pwd"}') == Allow(input={"command": "pwd"})


def test_questions_are_answered_one_after_the_other_by_number_or_in_words() -> None:
    ask = make_prompt("question", questions=QUESTIONS)
    assert "  1  SQLite: one file" in [text for text, _ in ask.render()]
    assert ask.parse_line("1") is ReplyKind.MORE
    assert "  2/2 Which parts?" in [text for text, _ in ask.render_more()]
    assert ask.parse_line("1, 3") == GiveAnswers(answers={"Which database?": ["SQLite"], "Which parts?": ["a", "c"]})


def test_a_question_takes_words_of_ones_own_and_can_be_declined() -> None:
    assert make_prompt("question", questions=QUESTIONS[:1]).parse_line("7") == GiveAnswers(
        answers={"Which database?": ["7"]}
    )
    assert make_prompt("question", questions=QUESTIONS[:1]).parse_line("-") == Decline()


def test_a_question_takes_a_note_and_one_of_several_may_be_left_out() -> None:
    ask = make_prompt("question", questions=QUESTIONS)
    assert ask.parse_line("-") is ReplyKind.MORE
    assert ask.parse_line("2: most of it") == GiveAnswers(
        answers={"Which parts?": ["b"]}, notes={"Which parts?": "most of it"}
    )


def test_two_numbers_where_one_can_be_chosen_are_asked_for_again() -> None:
    ask = make_prompt("question", questions=QUESTIONS)
    assert ask.parse_line("1,2") is ReplyKind.MORE
    assert ask.render_more()[-1] == ("  Only one of them can be chosen.", "yellow")
    assert ask.parse_line("sqlite") is ReplyKind.MORE
    assert ask.go_back()
    assert "  1/2 Which database?" in [text for text, _ in ask.render_more()]


def render_lines(ask: AskPrompt) -> list[str]:
    return [text for text, _ in ask.render()]


def make_prompt_with_input(given: dict[str, Any], /, **fields: Any) -> AskPrompt:
    return make_prompt("permission", call={**CALL, "input": given}, **fields)


def test_what_would_be_done_is_shown_in_full_sight() -> None:
    assert render_lines(make_prompt("permission", call=CALL, message="May it?", reason="Because."))[:3] == [
        "? May it?",
        "  │ ls",
        "  Because.",
    ]
    patch = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n"
    changed = render_lines(make_prompt_with_input({"file_path": "/a"}, diff=patch, agent={"kind": "scout"}))
    assert changed[0] == "? scout: May it?"
    assert changed[1:4] == ["  @@ -1 +1 @@", "  -old", "  +new"]


def test_a_command_is_shown_once_and_line_by_line() -> None:
    command = "# only a look\n\nrm -rf  ~"
    ask = make_prompt_with_input(
        {"command": command, "description": "Looks"},
        message="Run this command: # only a look rm -rf ~",
        reason="`# only a look rm -rf ~`: rm is not in the table.",
    )
    assert render_lines(ask)[:6] == [
        "? Run this command:",
        "  │ # only a look",
        "  │ ",
        "  │ rm -rf  ~",
        "  description: Looks",
        "  rm is not in the table.",
    ]


def test_a_question_that_says_more_than_the_command_stays() -> None:
    assert (
        render_lines(make_prompt_with_input({"command": "ls"}, message="Run this outside: ls -l"))[0]
        == "? Run this outside: ls -l"
    )


def test_a_command_that_changes_a_file_is_shown_beside_the_change() -> None:
    patch = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n"
    assert render_lines(make_prompt_with_input({"command": "sed -i s/old/new/ a"}, diff=patch))[1:5] == [
        "  │ sed -i s/old/new/ a",
        "  @@ -1 +1 @@",
        "  -old",
        "  +new",
    ]


def test_what_there_is_no_room_for_is_counted_and_a_key_shows_it() -> None:
    command = "\n".join(["x" * 95, *(f"echo {number}" for number in range(20)), "rm -rf ~"])
    call = {**CALL, "input": {"command": command}}
    ask = AskPrompt(Ask.model_validate({**BASE, "kind": "permission", "call": call}), ScreenArea(rows=5, columns=50))
    assert render_lines(ask)[4:6] == [
        "  │ echo 2",
        "  … 120 characters on 18 lines are not shown: [v] shows all of it",
    ]
    assert (ask.prompt, "v" in ask.keys) == ("[y/a/l/n/x/d/e/v] ", True)
    assert ask.parse_line("v") is ReplyKind.VIEW
    assert "  │ rm -rf ~" in [text for text, _ in ask.render_whole()]


def test_one_line_that_is_longer_than_the_screen_is_cut_with_a_mark() -> None:
    call = {**CALL, "input": {"command": "x" * 1000 + "; rm -rf ~"}}
    ask = AskPrompt(Ask.model_validate({**BASE, "kind": "permission", "call": call}), ScreenArea(rows=2, columns=50))
    assert render_lines(ask)[1:3] == [
        f"  │ {'x' * 95}…",
        "  … 915 characters on 1 line are not shown: [v] shows all of it",
    ]


def test_an_input_that_was_to_be_changed_and_was_not_is_not_allowed_silently() -> None:
    ask = make_prompt("permission", call=CALL)
    ask.parse_line("e")
    assert ask.parse_line(ask.prefill) is ReplyKind.SAME
    assert ask.parse_line("y") == Allow()


def test_what_a_plan_wants_along_with_it_is_shown() -> None:
    ask = make_prompt("plan", plan="1. look\n2. leap", allowed_prompts=[{"tool": "Bash", "prompt": "run tests"}])
    assert render_lines(ask)[:4] == [
        "? This is the plan.",
        "  │ 1. look",
        "  │ 2. leap",
        "  along with it: Bash: run tests",
    ]


def test_a_plan_is_approved_in_a_mode_that_is_named() -> None:
    ask = make_prompt("plan", plan="1. look")
    assert ask.parse_line("m") is ReplyKind.MORE
    assert ask.parse_line("plan") is ReplyKind.MORE
    assert "default, acceptEdits" in ask.prompt
    assert ask.parse_line("ACCEPTEDITS") == Approve(mode="acceptEdits")
    assert make_prompt("plan", plan="1. look").parse_line("e") is ReplyKind.EDIT


def test_a_plan_that_was_changed_here_is_approved_so() -> None:
    ask = make_prompt("plan", plan="1. look")
    assert not ask.change_plan(" \n")
    assert not ask.change_plan("1. look")
    assert ask.change_plan("1. listen")
    assert "  │ 1. listen" in render_lines(ask)
    assert ask.parse_line("y") == Approve(plan="1. listen")
