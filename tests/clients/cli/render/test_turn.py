"""What people read of a turn: each letter once, each call in one line."""

import io
from typing import Any

import pytest

from ostler.clients import typed
from ostler.clients.cli.render.diff import render_patch
from ostler.clients.cli.render.sink import StreamSink
from ostler.clients.cli.render.turn import TurnRenderer, find_last_line
from ostler.protocol.events import Event
from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import RunningCall

NOW = "2026-01-01T00:00:00.000Z"
CALL: dict[str, Any] = {
    "call_id": "m_1#1",
    "tool_use_id": "x",
    "session_id": "s_1",
    "tool": "Bash",
    "input": {},
    "summary": "make",
    "status": "running",
}
TURN: dict[str, Any] = {"id": "t_1", "session_id": "s_1", "status": "ended", "reason": "completed", "cursor": 1}

SESSION: dict[str, Any] = {
    "id": "s_2",
    "cwd": "/",
    "model": "m",
    "provider": "p",
    "mode": "default",
    "status": "idle",
    "root_id": "s_1",
    "on_ask": "ask",
    "created_at": NOW,
    "updated_at": NOW,
    "cursor": 1,
}


class RenderedTurn:
    """A turn renderer, and the streams that it writes to."""

    def __init__(self, *, full: bool = True) -> None:
        self.output, self.notes = io.StringIO(), io.StringIO()
        same = self.output if full else self.notes
        self._renderer = TurnRenderer(StreamSink(self.output, same), SessionId("s_1"), full=full)

    def __call__(self, kind: str, session_id: str = "s_1", /, **data: Any) -> None:
        fields = {"cursor": 1, "session_id": session_id, "root_id": "s_1", "time": NOW, "type": kind, "data": data}
        self._renderer.render(typed(Event.model_validate(fields)))

    def render_running(self, call: dict[str, Any]) -> None:
        self._renderer.render_running(RunningCall.model_validate(call))

    def render_delta(self, offset: int, text: str, kind: str = "text", index: int = 0) -> None:
        self("message.delta", message_id="m_1", index=index, kind=kind, offset=offset, text=text)

    def render_message(self, *content: dict[str, Any], kind: str = "message.completed") -> None:
        self(kind, message={**MESSAGE, "content": list(content)})


MESSAGE: dict[str, Any] = {"id": "m_1", "session_id": "s_1", "role": "assistant", "content": [], "created_at": NOW}


def make_text_block(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_the_pieces_are_told_and_the_whole_is_not_told_again() -> None:
    rendered = RenderedTurn()
    rendered.render_delta(0, "Good ")
    rendered.render_delta(5, "day.")
    rendered.render_message(make_text_block("Good day."))
    assert rendered.output.getvalue() == "Good day.\n"


def test_what_was_dropped_on_the_way_is_told_with_the_whole() -> None:
    rendered = RenderedTurn()
    rendered.render_delta(0, "Good ")
    rendered.render_delta(9, "…")
    rendered.render_message(make_text_block("Good day, all."), make_text_block("And more."))
    assert rendered.output.getvalue() == "Good day, all.\nAnd more.\n"


def test_a_message_of_which_no_piece_was_seen_is_told_whole() -> None:
    rendered = RenderedTurn()
    rendered.render_message({"type": "thinking", "thinking": "Hm."}, make_text_block("Good day."))
    assert rendered.output.getvalue() == "Hm.\nGood day.\n"


def test_a_message_that_broke_off_is_taken_back_and_told_again() -> None:
    rendered = RenderedTurn()
    rendered.render_delta(0, "Goo")
    rendered.render_message(kind="message.aborted")
    rendered.render_delta(0, "Good day.")
    rendered.render_message(make_text_block("Good day."))
    assert rendered.output.getvalue() == "Goo\n(That answer broke off and does not count.)\nGood day.\n"


def test_a_call_is_one_line_although_its_message_ends_while_it_runs() -> None:
    rendered = RenderedTurn()
    rendered.render_delta(0, "Now.")
    rendered("tool.started", call=CALL)
    rendered.render_message(make_text_block("Now."), {"type": "tool_use", "id": "x", "name": "Bash", "input": {}})
    rendered("tool.completed", call={**CALL, "status": "completed", "duration_ms": 812})
    assert rendered.output.getvalue() == "Now.\n● Bash make … ✓ 0.8 s\n"


def test_calls_at_the_same_time_have_a_line_each_at_their_end() -> None:
    rendered = RenderedTurn()
    other = {**CALL, "call_id": "m_1#2", "summary": "lint"}
    rendered("tool.started", call=CALL)
    rendered("tool.started", call=other)
    rendered("tool.completed", call={**CALL, "status": "completed", "duration_ms": 1})
    rendered("tool.completed", call={**other, "status": "completed", "is_error": True})
    assert rendered.output.getvalue().splitlines() == [
        "● Bash make …",
        "● Bash lint …",
        "● Bash make ✓ 0.0 s",
        "● Bash lint ✗",
    ]


def test_a_long_result_is_shortened_and_an_error_is_told_without_its_tags() -> None:
    rendered = RenderedTurn()
    long = {"type": "text", "text": "\n".join(str(number) for number in range(20))}
    rendered("tool.completed", call={**CALL, "status": "completed", "content": [long]})
    assert rendered.output.getvalue().splitlines()[1:] == [
        "  0",
        "  1",
        "  2",
        "  3",
        "  4",
        "  5",
        "  … 14 lines more",
    ]
    error = {"type": "text", "text": "<tool_use_error>no such file</tool_use_error>"}
    failed = {**CALL, "call_id": "m_1#2", "status": "completed", "is_error": True, "content": [error]}
    rendered("tool.completed", call=failed)
    assert rendered.output.getvalue().splitlines()[-1] == "  no such file"


def test_a_call_whose_result_is_shortened_later_is_told_once() -> None:
    rendered = RenderedTurn()
    ended = {**CALL, "status": "completed", "content": [make_text_block("all of it")]}
    rendered("tool.completed", call=ended)
    before = rendered.output.getvalue()
    rendered("tool.completed", call={**ended, "content": [make_text_block("a part of it")], "result_id": "r_1"})
    assert rendered.output.getvalue() == before


def test_a_script_reads_only_words_on_stdout() -> None:
    rendered = RenderedTurn(full=False)
    rendered.render_delta(0, "Hm.", "thinking", index=0)
    rendered.render_delta(0, "Good ", index=1)
    rendered("tool.started", call=CALL)
    rendered("notice", level="warning", text="Mind the gap.")
    rendered.render_message({"type": "thinking", "thinking": "Hm."}, make_text_block("Good day."))
    rendered("turn.ended", turn=TURN)
    assert rendered.output.getvalue() == "Good \nday.\n"
    assert rendered.notes.getvalue() == "● Bash make …\nMind the gap.\n"


def test_the_words_of_an_agent_are_not_the_sessions_own() -> None:
    rendered = RenderedTurn()
    rendered(
        "message.completed", "s_2", message={**MESSAGE, "session_id": "s_2", "content": [make_text_block("inner")]}
    )
    rendered("tool.completed", "s_2", call={**CALL, "status": "completed", "parent_call_id": "m_0#0"})
    assert rendered.output.getvalue() == "  ● Bash make ✓\n"


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"reason": "failed", "error": {"code": "x", "message": "It broke."}}, "✗ The turn failed: It broke."),
        ({"reason": "timeout"}, "✗ The turn ended: its time is over."),
        (
            {"denials": [{"tool": "Bash", "input": {}, "reason": "No.", "allow_with": "Bash(make)"}]},
            "✗ Bash was refused: No. The rule Bash(make) would allow it.",
        ),
    ],
)
def test_an_end_that_is_not_plain_to_see_is_told(fields: dict[str, Any], line: str) -> None:
    rendered = RenderedTurn()
    rendered("turn.ended", turn={**TURN, **fields})
    assert rendered.output.getvalue().splitlines()[0] == line


def test_what_a_turn_took_is_told_at_its_end() -> None:
    rendered = RenderedTurn()
    usage = {"input_tokens": 10, "cache_read_tokens": 5, "output_tokens": 7, "cost_usd": None}
    rendered("turn.ended", turn={**TURN, "model_requests": 2, "tool_calls": 1, "usage": usage})
    assert rendered.output.getvalue() == "2 requests, 1 call, 15 tokens in, 7 out\n"


def test_a_retry_says_why_and_when() -> None:
    rendered = RenderedTurn()
    rendered("model.retrying", attempt=1, max_retries=5, wait_ms=1500, error={"code": "x", "message": "Overloaded."})
    assert rendered.output.getvalue() == "… The model did not answer: Overloaded. Again in 1.5 s (1 of 5).\n"


def test_a_long_change_is_shortened_with_a_mark() -> None:
    rendered = RenderedTurn()
    patch = "--- a\n+++ b\n@@ -0,0 +1,100 @@\n+" + "y" * 200 + "\n" + "+x\n" * 99
    rendered("file.changed", call_id="m_1#1", path="/a", action="modified", patch=patch, additions=100, deletions=0)
    lines = rendered.output.getvalue().splitlines()
    assert lines[:2] == ["± /a", "  @@ -0,0 +1,100 @@"]
    assert (lines[2][:6], lines[2][-1], len(lines[2])) == ("  +yyy", "…", 162)
    assert lines[-1] == "  … 61 lines more"


def test_a_patch_has_no_head_and_hides_no_line_that_looks_like_one() -> None:
    patch = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n same\n--- c\n+++ d\n@@ -1 +1 @@\n-x\n+y\n"
    assert render_patch(patch) == [
        ("@@ -1,2 +1,2 @@", "cyan"),
        ("--- old", "red"),
        ("+++ new", "green"),
        (" same", None),
        ("+++ d", "green"),
        ("@@ -1 +1 @@", "cyan"),
        ("-x", "red"),
        ("+y", "green"),
    ]


def test_a_result_keeps_its_columns_and_says_where_it_is_cut() -> None:
    rendered = RenderedTurn()
    printed = make_text_block("NAME    SIZE\n\ta  b\n" + "x" * 300)
    rendered("tool.completed", call={**CALL, "status": "completed", "content": [printed]})
    lines = rendered.output.getvalue().splitlines()[1:]
    assert lines[:2] == ["  NAME    SIZE", "  \ta  b"]
    assert (lines[2][-1], len(lines[2])) == ("…", 162)


STOCK = "The person said no to this call. Do not try the same in another way."


@pytest.mark.parametrize(("reason", "shown"), [(STOCK, "✗ refused"), ("use pnpm", "✗ refused: use pnpm")])
def test_the_no_of_a_person_is_told_once_and_in_short(reason: str, shown: str) -> None:
    rendered = RenderedTurn()
    decision = {"behavior": "deny", "by": "person", "reason": reason}
    rendered("tool.completed", call={**CALL, "status": "completed", "is_error": True, "decision": decision})
    rendered(
        "turn.ended", turn={**TURN, "denials": [{"tool": "Bash", "input": {}, "reason": reason, "allow_with": "Bash"}]}
    )
    assert rendered.output.getvalue().splitlines()[:-1] == [f"● Bash make {shown}"]


def test_a_pipe_is_not_told_how_far_a_call_is() -> None:
    rendered = RenderedTurn()
    rendered("tool.started", call=CALL)
    rendered("tool.progress", call_id="m_1#1", kind="shell", elapsed_ms=2000, data={"output": "a\nb\n", "lines": 2})
    assert rendered.output.getvalue() == "● Bash make …"


@pytest.mark.parametrize(("printed", "last"), [("one\ntwo\n", "two"), ("10%\r20%\r30%", "30%"), ("  \n", "")])
def test_the_last_line_is_what_a_person_would_see_last(printed: str, last: str) -> None:
    assert find_last_line(printed) == last


def test_a_call_that_ran_before_is_told_with_the_end_of_what_it_has_printed() -> None:
    rendered = RenderedTurn()
    printed = "".join(f"{number}\n" for number in range(1, 31)) + "10%\r20%"
    rendered.render_running({**CALL, "output": printed, "output_offset": 0, "elapsed_ms": 3000})
    rendered("tool.completed", call={**CALL, "status": "completed", "duration_ms": 4000, "content": []})
    lines = rendered.output.getvalue().splitlines()
    assert lines[:3] == ["● Bash make …", "  … 11 lines before", "  12"]
    assert lines[-3:] == ["  30", "  20%", "  … ✓ 4.0 s"]
    rendered.render_running({**CALL, "call_id": "m_1#2"})
    rendered("tool.completed", call={**CALL, "call_id": "m_1#2", "status": "completed", "content": []})
    assert rendered.output.getvalue().splitlines()[len(lines) :] == ["● Bash make … ✓"]


def test_an_agents_calls_are_under_its_name_and_tear_no_sentence_apart() -> None:
    rendered = RenderedTurn()
    agent = {**SESSION, "agent": {"name": "scout", "kind": "Explore"}}
    rendered("session.created", "s_2", session=agent)
    theirs = {**CALL, "call_id": "m_2#0", "session_id": "s_2"}
    text = {"type": "text", "text": "ok"}
    rendered.render_delta(0, "Good ")
    rendered("tool.started", "s_2", call=theirs)
    rendered("tool.completed", "s_2", call={**theirs, "status": "completed", "duration_ms": 1, "content": [text]})
    rendered.render_delta(5, "day.")
    rendered.render_message(make_text_block("Good day."))
    assert rendered.output.getvalue() == "Good day.\n  ● scout: Bash make … ✓ 0.0 s\n"


def test_an_agent_that_waits_for_its_place_or_goes_on_in_the_background_is_told_once() -> None:
    rendered = RenderedTurn()
    call = {**CALL, "tool": "Agent", "summary": "Agent Explore scout: look"}
    progress = {"call_id": CALL["call_id"], "kind": "agent", "elapsed_ms": 2000, "data": {"status": "queued"}}
    rendered("tool.started", call=call)
    rendered("tool.progress", **progress)
    rendered("tool.progress", **progress)
    launched = {"type": "text", "text": "Running in background as a1"}
    ended = {"status": "completed", "content": [launched], "output": {"status": "async_launched"}}
    rendered("tool.completed", call={**call, **ended})
    assert rendered.output.getvalue().splitlines() == [
        "● Agent Explore scout: look …",
        "● Agent Explore scout: look: waits until fewer agents work",
        "● Agent Explore scout: look ✓",
    ]


def test_a_message_to_the_people_is_written_whole_with_the_way_to_its_files() -> None:
    for full in (True, False):
        rendered = RenderedTurn(full=full)
        file = {"id": "r_1", "path": "/p/a.png", "size": 12345, "is_image": True}
        rendered(
            "brief.sent",
            call_id="m_1#1",
            message="Done.\nAll of it.",
            attachments=[file],
            status="normal",
            sent_at=NOW,
        )
        written = (rendered.output if full else rendered.notes).getvalue()
        assert written == "✉ Done.\n  All of it.\n  /p/a.png (12,345 bytes): ostler show r_1 > FILE\n"
