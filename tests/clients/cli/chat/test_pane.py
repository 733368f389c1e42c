"""The chat as a person sees it: in a real terminal, whose pane is read."""

import re
import shutil
from pathlib import Path

import pytest

from tests.clients.cli.chat.pane import Pane
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says, thinks
from tests.support.messages_api.server import ScriptedApi
from tests.support.model_replies import bash

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not there")

MARKDOWN = """# What there is

Some **bold** words and `code`, and
a second line.

- one
- two

| name | legs |
|------|------|
| Fury | 4    |

```python
def trot(legs: int) -> None:
    print(legs)
```

See [the page](https://example.org/horses) \x1b[2J\x07 for 日本語 and e\u0301."""


def count(shown: str, text: str) -> int:
    return len(re.findall(re.escape(text), shown))


def test_words_calls_and_asks_stand_in_their_places(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with Pane(rehearsal_cli, "chat", cwd=project) as pane:
        pane.read_until("A new session in", "\n>")
        pane.type("read README.md")
        pane.press("Enter")
        shown = pane.read_until("requests,")
        assert "> read README.md" in shown
        assert re.search(r"● Read .*README.md ✓ [\d.]+ s", shown)
        assert "\n>\n  rehearsal · default" in shown
        pane.type("run seq 1 40 | tee made")
        pane.press("Enter")
        pane.read_until("▌ ? Run this command:", "▌   │ seq 1 40 | tee made", "[y/a/l/n/x/d/e]")
        pane.type("y")
        shown = pane.read_until("● Bash seq 1 40 | tee made ✓", "│ … 32 lines before", "│ 40", "tokens in")
        assert "▌" not in shown  # the card is gone
        assert "? Bash seq 1 40 | tee made: allow" in shown
        pane.type("replace hello with good day in README.md")
        pane.press("Enter")
        pane.read_until("▌", "[y/a/l/n/x/d/e]")
        pane.type("y")
        shown = pane.read_until("● Edit", "  1 - hello", "  1 + good day")
        pane.press("C-d")
        shown = pane.read_until("comes back.", "left with 0", history=True)
        # Each block was written once, whatever was drawn over meanwhile.
        for text in ("> read README.md", "> run seq 1 40", "● Bash seq 1 40", "1 + good day", "A new session in"):
            assert count(shown, text) == 1, shown
        assert "▌" not in shown


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_markdown_is_laid_out_as_it_streams_and_acts_on_nothing(
    api: ScriptedApi, home: Path, project: Path, columns: int
) -> None:
    gate = Gate()
    head, _, tail = MARKDOWN.partition("- two")
    api.always(message(thinks("Horses have legs."), says(head, hold(gate), f"- two{tail}")))
    with (
        Daemon(home, environment=api.environment),
        Pane(Cli(home), "chat", "--model", "claude-sonnet-5", cwd=project, columns=columns) as pane,
    ):
        pane.read_until("\n>")
        pane.type("what is there?")
        pane.press("Enter")
        shown = pane.read_until("What there is", " • one", "∴ thought for", "Esc stops" if columns > 40 else "Writing")
        assert "**" not in shown
        assert "# What" not in shown
        gate.open()
        shown = pane.read_until("tokens in", "Fury", "def trot(legs: int) -> None:", "日本語", "e\u0301", history=True)
        for text in ("What there is", "bold", " • one", " • two", "Fury", "def trot", "See the page"):
            assert count(shown, text) == 1, shown
        assert "\\x1b[2J\\x07" in shown.replace("\n", "")
        assert "```" not in shown
        assert "|--" not in shown


def test_several_lines_are_typed_edited_and_sent(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    with Pane(rehearsal_cli, "chat", cwd=project) as pane:
        pane.read_until("\n>")
        pane.type("one")
        pane.press("M-Enter")
        pane.type("two\\")
        pane.press("Enter")
        pane.type("three")
        pane.press("C-j")
        pane.type("four")
        pane.read_until("> one\n  two\n  three\n  four")
        pane.press("C-w", "C-w")
        pane.read_until_gone("three")
        pane.press("C-y")
        pane.press("Enter")
        pane.read_until("tokens in")
    (session,) = rehearsal_daemon.call("session/list")["sessions"]
    (first, *_) = rehearsal_daemon.call("session/messages", session_id=session["id"])["messages"]
    assert first["content"][0]["text"].startswith("one\ntwo\n")


def test_a_paste_is_one_input_and_reports_that_nobody_asked_for_are_nothing(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with Pane(rehearsal_cli, "chat", cwd=project) as pane:
        pane.read_until("\n>")
        pane.paste("\n".join(f"row {number}" for number in range(30)))
        pane.read_until("> [pasted 1: 30 lines]")
        pane.type("\x1b[<0;10;10M\x1b[<0;10;10m\x1b]11;rgb:0/0/0\x07\x1b[?62;c")
        pane.type(" ends")
        pane.read_until("> [pasted 1: 30 lines] ends")
        pane.press("Enter")
        pane.read_until("tokens in")
    (session,) = rehearsal_daemon.call("session/list")["sessions"]
    (first, *_) = rehearsal_daemon.call("session/messages", session_id=session["id"])["messages"]
    assert first["content"][0]["text"].endswith("row 28\nrow 29 ends")


def test_a_resize_in_the_middle_of_everything_leaves_each_block_once(
    api: ScriptedApi, home: Path, project: Path
) -> None:
    gates = [Gate() for _ in range(4)]
    paragraphs = [f"Paragraph {number}: " + "some words to be wrapped " * 8 for number in range(5)]
    pieces = [piece for text, gate in zip(paragraphs, gates, strict=False) for piece in (f"{text}\n\n", hold(gate))]
    api.always(message(says(*pieces, paragraphs[-1])))
    with (
        Daemon(home, environment=api.environment),
        Pane(Cli(home), "chat", "--model", "claude-sonnet-5", cwd=project) as pane,
    ):
        pane.read_until("\n>")
        pane.type("go")
        pane.press("Enter")
        pane.read_until("Paragraph 0")
        for gate, size in zip(gates, [(50, 12), (5, 5), (120, 40), (80, 24)], strict=True):
            pane.resize(*size)
            gate.open()
        pane.read_until("tokens in")
        pane.type("still here")
        shown = pane.read_until("> still here")
        assert count(shown, "Paragraph 4:") == 1


def test_a_suspended_chat_comes_back(rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path) -> None:
    with Pane(rehearsal_cli, "chat", cwd=project, in_shell=True) as pane:
        pane.read_until("A new session in", "\n>")
        pane.type("half a li")
        pane.read_until("> half a li")
        pane.press("C-z")
        pane.read_until("Stopped")
        pane.type("clear; fg")
        pane.press("Enter")
        pane.read_until("> half a li")
        pane.type("ne")
        pane.read_until("> half a line")


def test_thinking_and_long_commands_are_seen_live_and_steering_waits_in_sight(
    api: ScriptedApi, home: Path, project: Path
) -> None:
    think, speak = Gate(), Gate()
    api.always(
        message(thinks("Let me see, ", hold(think), "so it is."), says("Now.", hold(speak)), bash("seq 3; touch x")),
        message(says("As you say.")),
    )
    with (
        Daemon(home, environment=api.environment),
        Pane(Cli(home), "chat", "--model", "claude-sonnet-5", cwd=project) as pane,
    ):
        pane.read_until("\n>")
        pane.type("go")
        pane.press("Enter")
        pane.read_until("∴ Let me see,", "Thinking … ", "Esc stops")
        pane.type("be quick")
        pane.press("Enter")
        pane.read_until("  » be quick  (waits)")
        think.open()
        pane.read_until("∴ thought for", "Let me see, so it is.")
        speak.open()
        pane.read_until("▌ ? Run this command:", "[y/a/l/n/x/d/e]")
        pane.type("y")
        shown = pane.read_until("As you say.", "> be quick", "tokens in", history=True)
        assert shown.index("● Bash seq 3; touch x ✓") < shown.index("> be quick") < shown.index("As you say.")


def test_a_work_list_stands_above_the_line_and_says_what_is_being_done(
    api: ScriptedApi, home: Path, project: Path
) -> None:
    gate = Gate()
    api.always(
        message(calls("TaskCreate", {"subject": "Groom", "description": "Groom"})),
        message(calls("TaskCreate", {"subject": "Feed", "description": "Feed", "activeForm": "Feeding the horses"})),
        message(calls("TaskCreate", {"subject": "Ride", "description": "Ride"})),
        message(calls("TaskUpdate", {"taskId": "1", "status": "completed"})),
        message(calls("TaskUpdate", {"taskId": "2", "status": "in_progress"})),
        message(says("So.", hold(gate), " Done.")),
    )
    with (
        Daemon(home, environment=api.environment),
        Pane(Cli(home), "chat", "--model", "claude-sonnet-5", cwd=project) as pane,
    ):
        pane.read_until("\n>")
        pane.type("go")
        pane.press("Enter")
        pane.read_until("▸ Feed", "☐ Ride", "☑ 1 todo done", "Feeding the horses … ")
        gate.open()
        pane.read_until("So. Done.", "tokens in")


def test_keys_stand_for_commands_and_a_slash_is_completed(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "sed -i s/old/new/")
    monkeypatch.setenv("PAGER", "sh -c 'cat $0; echo paged; read line'")
    with Pane(rehearsal_cli, "chat", cwd=project) as pane:
        pane.read_until("\n>")
        pane.type("?")
        pane.read_until("Shift-Tab", "the next mode")
        pane.press("BTab")
        pane.read_until("The mode is now acceptEdits.")
        pane.type("/tr")
        pane.read_until("  /transcript   all that was said and done")
        pane.press("Tab")
        pane.read_until("> /transcript")
        pane.press("C-u")
        pane.type("an old word")
        pane.press("C-g")
        pane.read_until("> an new word")
        pane.press("Enter")
        pane.read_until("tokens in")
        pane.press("C-o")
        pane.read_until("paged", "an new word")
        pane.press("Enter")
        pane.press("C-l")
        shown = pane.read_until_gone("tokens in")
        assert shown.startswith(">\n  rehearsal")
    with Pane(rehearsal_cli, "chat", cwd=project) as pane:
        pane.read_until("\n>")
        pane.press("Up")
        pane.read_until("> an new word")


def test_the_status_line_says_how_it_stands_and_who_else_is_here(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    (project / ".git").mkdir(exist_ok=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/meadow\n")
    with Pane(rehearsal_cli, "chat", cwd=project, columns=200) as pane:
        pane.read_until("\n>", "  rehearsal · default · ", "(meadow)", "░")
        pane.press("BTab")
        pane.read_until("  rehearsal · acceptEdits · ")
        pane.type("read README.md")
        pane.press("Enter")
        pane.read_until("tokens in")
        with Pane(rehearsal_cli, "chat", "--continue", cwd=project, columns=200) as other:
            other.read_until("> read README.md", "1 other here")
            pane.read_until("1 other here")
        pane.type("/vim")
        pane.press("Enter")
        pane.read_until("  INSERT · rehearsal")


def test_another_session_is_chosen_by_its_words_and_a_new_one_begun(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    for title in ("the brown horse", "the white hen"):
        rehearsal_daemon.call("session/create", cwd=str(project), title=title)
    with Pane(rehearsal_cli, "chat", "--resume", cwd=project) as pane:
        pane.read_until("> /resume", "the brown horse", "the white hen")
        pane.type("hen")
        pane.read_until_gone("brown")
        pane.press("Tab", "Enter")
        pane.read_until("the white hen in")
        pane.type("/rename the red hen")
        pane.press("Enter")
        pane.read_until("The title is now the red hen.")
        pane.type("/new")
        pane.press("Enter")
        pane.read_until("A new session in", "comes back.")
        pane.type("/status")
        pane.press("Enter")
        pane.read_until("running")


def test_a_question_mark_at_an_ask_says_why_and_what_it_would_do(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with Pane(rehearsal_cli, "chat", cwd=project) as pane:
        pane.read_until("\n>")
        pane.type("run rm README.md")
        pane.press("Enter")
        pane.read_until("[y/a/l/n/x/d/e]", "[?] why")
        pane.type("?")
        pane.read_until("by default", "delete", "would pass with the rule  Bash(rm README.md)")
        pane.type("n")
        pane.read_until("? Bash rm README.md: deny", "tokens in")


def test_a_file_is_mentioned_by_a_few_letters_and_goes_along(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    (project / "stable").mkdir()
    (project / "stable" / "horses.txt").write_text("Fury\nFlicka\nBlack Beauty\n")
    (project / ".gitignore").write_text("hidden.txt\n")
    (project / "hidden.txt").write_text("no horse\n")
    with Pane(rehearsal_cli, "chat", cwd=project) as pane:
        pane.read_until("\n>")
        pane.type("who is in @hrs")
        pane.read_until("  @stable/horses.txt")
        pane.press("Tab")
        pane.read_until("> who is in @stable/horses.txt")
        pane.press("BSpace")
        pane.type(":2-3?")
        pane.press("Enter")
        pane.read_until("> who is in @stable/horses.txt:2-3?", "tokens in")
        pane.type("@hidden")
        pane.read_until("> @hidden")
        assert "@hidden.txt" not in pane.read()
    (session,) = rehearsal_daemon.call("session/list")["sessions"]
    (first, *_) = rehearsal_daemon.call("session/messages", session_id=session["id"])["messages"]
    assert "Flicka" in first["content"][1]["text"]
    assert "Fury" not in first["content"][1]["text"]


def test_a_terminal_that_is_read_aloud_gets_lines_and_nothing_that_moves(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    rehearsal_daemon.call("config/set", key="terminal.screen_reader", value=True)
    with Pane(rehearsal_cli, "chat", cwd=project) as pane:
        pane.read_until("A new session in")
        pane.type("read README.md")
        pane.press("Enter")
        shown = pane.read_until("tokens in")
        assert "… ✓" in shown
    rehearsal_daemon.call("config/set", key="terminal.screen_reader", value=False)
    rehearsal_daemon.call("config/set", key="terminal.vi", value=True)
    with Pane(rehearsal_cli, "chat", cwd=project) as pane:
        pane.read_until("\n>", "INSERT · rehearsal")


def test_a_line_that_begins_with_a_number_sign_is_a_note(
    rehearsal_cli: Cli, rehearsal_daemon: Daemon, project: Path
) -> None:
    with Pane(rehearsal_cli, "chat", cwd=project, columns=200) as pane:
        pane.read_until("\n>")
        pane.type("#the tests run with pnpm")
        pane.press("Enter")
        pane.read_until("Kept in ")
    assert any("pnpm" in file.read_text() for file in (project / ".ostler" / "memory").rglob("*.md"))
    (session,) = rehearsal_daemon.call("session/list")["sessions"]
    assert rehearsal_daemon.call("turn/list", session_id=session["id"])["turns"] == []  # the model was not asked
