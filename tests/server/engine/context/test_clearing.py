"""Which results are cleared, and which messages stay word for word: arithmetic on rows, without a daemon."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from ostler.server.engine.context.clearing import (
    choose_cleared,
    find_dangling,
    is_cleared,
    list_cleared_files,
)
from ostler.server.engine.context.repeats import describe_repeat
from ostler.server.engine.context.rows import Row, decode_rows
from ostler.server.engine.context.tail import compute_tail_tokens, find_tail
from ostler.server.engine.context.transcript import cut_middle, render_transcript
from ostler.tools.files.reading.output import UnchangedOutput, render_output
from ostler.tools.files.reading.shown import report_unchanged

pytestmark = pytest.mark.without_daemon
Block = dict[str, Any]


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def use(name: str, tool: str = "Bash", **given: Any) -> Block:
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def result(name: str, words: str) -> Block:
    return {"type": "tool_result", "tool_use_id": name, "content": [text(words)], "is_error": False}


def make_rows(*messages: tuple[str, list[Block]]) -> list[Row]:
    return decode_rows((at, role, orjson.dumps(blocks)) for at, (role, blocks) in enumerate(messages, 1))


def make_calls(*sizes: int, tool: str = "Bash") -> Iterator[tuple[str, list[Block]]]:
    """A request, and a call a message with a result of so many tokens each; then the model says something."""
    yield "user", [text("Go.")]
    for at, tokens in enumerate(sizes):
        yield "assistant", [use(f"t{at}", tool)]
        yield "user", [result(f"t{at}", "x" * (4 * tokens))]
    yield "assistant", [text("Well.")]


def test_the_oldest_go_first_and_the_last_40000_tokens_stay() -> None:
    rows = make_rows(*make_calls(15_000, 15_000, 15_000, 15_000, 15_000))
    assert list(choose_cleared(rows)) == ["t0", "t1", "t2"]
    assert choose_cleared(make_rows(*make_calls(19_000, 20_000, 19_000))) == {}  # too little is gained
    assert list(choose_cleared(make_rows(*make_calls(21_000, 20_000, 19_000)))) == ["t0"]


def test_what_the_model_has_not_seen_stays() -> None:
    blocks = [use(f"t{at}") for at in range(3)], [result(f"t{at}", "x" * 120_000) for at in range(3)]
    rows = make_rows(("user", [text("Go.")]), ("assistant", blocks[0]), ("user", blocks[1]))
    assert choose_cleared(rows) == {}


def test_what_nobody_could_get_again_stays() -> None:
    for tool in ("Agent", "AskUserQuestion", "ToolSearch", "Skill"):
        assert choose_cleared(make_rows(*make_calls(30_000, 30_000, 30_000, tool=tool))) == {}


def test_a_line_says_what_is_gone_and_where_the_whole_is() -> None:
    messages = list(make_calls(30_000, 39_000))
    messages[2] = ("user", [result("t0", "saved to: result://r_0abc\n" + "x" * 120_000)])
    cleared = choose_cleared(make_rows(*messages))
    assert "120,026 characters that Bash gave" in cleared["t0"]
    assert "result://r_0abc" in cleared["t0"]
    assert is_cleared(cleared["t0"])
    messages[2] = ("user", [result("t0", cleared["t0"])])
    assert choose_cleared(make_rows(*messages)) == {}  # once and for ever


def test_a_result_goes_only_together_with_those_that_refer_to_it() -> None:
    line = describe_repeat("Bash", "t0")
    early = list(make_calls(30_000, 100, 20_000, 20_000))
    early[4] = ("user", [result("t1", line)])
    assert list(choose_cleared(make_rows(*early))) == ["t0", "t1", "t2"]
    late = list(make_calls(30_000, 39_000, 100))
    late[6] = ("user", [result("t2", line)])
    assert choose_cleared(make_rows(*late)) == {}
    chain = list(make_calls(30_000, 30_000, 39_000, 100))
    chain[8] = ("user", [result("t3", line)])
    assert list(choose_cleared(make_rows(*chain))) == ["t1"]


def render_unchanged() -> str:
    found = report_unchanged("/a", "These lines are", 9)
    assert isinstance(found.output, UnchangedOutput)
    return str(render_output(found.output)[0]["text"])


def test_a_file_that_is_said_to_be_unchanged_refers_to_what_was_shown_of_it() -> None:
    messages = list(make_calls(30_000, 39_000, 100, tool="Read"))
    for at, path in ((1, "/a"), (3, "/b"), (5, "/a")):
        messages[at] = ("assistant", [use(f"t{at // 2}", "Read", file_path=path)])
    assert list(choose_cleared(make_rows(*messages))) == ["t0"]
    messages[6] = ("user", [result("t2", render_unchanged())])
    rows = make_rows(*messages)
    assert choose_cleared(rows) == {}
    assert list_cleared_files(rows, ["t0", "t1"]) == ["/a", "/b"]
    # Of a conversation whose beginning is summarised, what refers to it does not stay as it is.
    assert list(find_dangling(rows[5:], rows[:5])) == ["t2"]
    assert find_dangling(rows[3:5], rows[:3]) == {}


# The last messages.


def test_the_tail_begins_where_a_conversation_may_begin() -> None:
    rows = make_rows(*make_calls(1_000, 1_000, 1_000))
    start = find_tail(rows, 1_200)
    assert (start, rows[start].role) == (5, "assistant")
    assert find_tail(rows, 5) == len(rows)
    assert find_tail(rows, 1_000_000) == 0
    inputs = make_rows(("user", [text("One.")]), ("assistant", [text("Yes.")]), ("user", [text("Two.")]))
    assert find_tail(inputs, 10) == 2


def test_the_tail_is_a_quarter_of_the_window_within_bounds() -> None:
    rows = make_rows(*make_calls(*[10_000] * 10))
    assert [compute_tail_tokens(window, rows) for window in (4_000, 40_000, 1_000_000)] == [2_000, 10_000, 15_000]
    assert compute_tail_tokens(200_000, make_rows(*make_calls(400))) < 120


# A conversation as text.


def test_a_transcript_keeps_its_beginning_and_its_end() -> None:
    rows = make_rows(*make_calls(*[2_000] * 50))
    shown = render_transcript(rows, 20_000)
    assert len(shown) < 21_000
    assert shown.startswith("## person\nGo.")
    assert shown.endswith("## assistant\nWell.")
    assert "messages are left out here" in shown
    assert cut_middle("abcdef" * 100, 100).startswith("abcdef")
    assert render_transcript(make_rows(("assistant", [{"type": "thinking", "thinking": "Hm."}])), 100) == ""
