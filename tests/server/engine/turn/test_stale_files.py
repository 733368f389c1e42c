"""Files that are not any more what the model has read."""

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ostler.server.engine.session.file_reads import StoredReads
from ostler.server.engine.turn.stale_files import stale_hint
from ostler.tools.services import FileRead
from tests.support.driver import Stage, Talk
from tests.support.messages_api.replies import Block, calls, message, says

DONE = message(says("Done."))
HEAD = "Changed on the disk since you read it; read it again before you rely on it or edit it:"
ALLOW = {"allow": ["Bash", "Edit"]}


def hints(talk: Talk) -> list[list[str]]:
    """The names in the hint of each message of the user's that brings results; empty where it has none."""
    found = []
    for one in talk.messages():
        if one["role"] == "user" and any(block["type"] == "tool_result" for block in one["content"]):
            texts = [block["text"] for block in one["content"] if block["type"] == "text"]
            found.append([line for text in texts for line in _names(text)])
    return found


def _names(text: str) -> Iterable[str]:
    lines = text.split("\n")
    return lines[2:-1] if HEAD in lines else []


def read(path: str) -> Block:
    return calls("Read", {"file_path": path})


def runs(command: str) -> Block:
    return calls("Bash", {"command": command})


def play(stage: Stage, talk: Talk, *blocks: Block) -> None:
    """A turn with a call a message."""
    stage.api.script(talk.name, *(message(block) for block in blocks), otherwise=DONE)
    assert talk.turn()["reason"] == "completed"


def test_a_command_that_changes_a_read_file_is_told_once(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    play(stage, talk, read(path), runs(f"echo beta >> {path}"), runs("touch other"), runs("touch another"))
    assert hints(talk) == [[], [f"- {path}"], [], []]


def test_the_next_change_is_told_again(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    change = f"echo more >> {path}"
    play(stage, talk, read(path), runs(change), runs(f"{change} #"), read(path), runs(f"{change} ##"))
    assert hints(talk) == [[], [f"- {path}"], [f"- {path}"], [], [f"- {path}"]]


def test_a_file_that_is_gone_is_told_as_gone(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    play(stage, talk, read(path), runs(f"rm {path}"), runs("touch other"))
    assert hints(talk) == [[], [f"- {path} (it is gone)"], []]


def test_what_another_program_changed_is_told_after_the_next_call_that_is_not_read_only(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = Path(talk.file("a.txt", "alpha\n"))
    gate = calls("Gate", {"path": talk.gate("go"), "reads": True})
    stage.api.script(talk.name, message(read(str(path))), message(gate), message(runs("touch b")), otherwise=DONE)
    turn_id = talk.start()
    talk.at_gate("go")
    path.write_text("another\n")
    talk.open_gate("go")
    talk.ended(turn_id)
    assert hints(talk) == [[], [], [f"- {path}"]]


def test_edits_of_the_model_itself_and_a_new_time_alone_are_no_news(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    edit = calls("Edit", {"file_path": path, "old_string": "alpha", "new_string": "beta"})
    play(stage, talk, read(path), edit, runs(f"touch -d '2001-01-01' {path}"))
    assert Path(path).stat().st_mtime < 1_000_000_000
    assert hints(talk) == [[], [], []]


def test_many_files_are_named_in_part_and_in_order(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    paths = [talk.file(f"{number:02}.txt", "alpha\n") for number in range(23)]
    change = runs(f"for f in {talk.folder}/*.txt; do echo x >> $f; done")
    stage.api.script(talk.name, message(*map(read, paths)), message(change), otherwise=DONE)
    talk.turn()
    assert hints(talk) == [[], [*(f"- {path}" for path in paths[:20]), "- and 3 more"]]


def test_a_hint_is_not_repeated_after_a_restart(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a.txt", "alpha\n")
    stage.api.script(
        talk.name,
        message(read(path)),
        message(runs(f"echo x >> {path}")),
        DONE,
        message(runs("touch b")),
        otherwise=DONE,
    )
    talk.turn()
    stage.restart()
    talk.turn("More.")
    assert hints(talk) == [[], [f"- {path}"], []]


def test_a_name_cannot_pretend_to_be_words_of_ours(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    path = talk.file("a\n<ostler-note>.txt", "alpha\n")
    play(stage, talk, read(path), runs(f"rm -r {talk.folder}/*.txt"))
    assert hints(talk) == [[], [f"- {os.path.dirname(path)}/a\\x0a\\x3costler-note>.txt (it is gone)"]]


def test_a_file_of_more_than_a_megabyte_counts_as_changed_by_its_time_alone(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    small, large = talk.file("small.txt", "x" * 1024 * 1024), talk.file("large.txt", "x" * 1024 * 1024 + "x")
    play(stage, talk, read(small), read(large), runs(f"touch -d '2001-01-01' {small} {large}"))
    assert hints(talk) == [[], [], [f"- {large}"]]


class Session:
    """As much of one as is looked at: what it has read, and what it was told."""

    def __init__(self, reads: dict[str, FileRead]) -> None:
        self.reads = StoredReads({})
        self.reads.back_to(reads)
        self.state: dict[str, object] = {}

    def remember(self, **values: object) -> None:
        self.state |= values


@pytest.mark.anyio
async def test_the_last_thousand_files_are_looked_at(tmp_path: Path) -> None:
    gone = FileRead(0, 1, "digest", (), 1)
    session: Any = Session({str(tmp_path / f"{number:04}"): gone for number in range(1_001)})
    hint = await stale_hint(session)
    assert hint is not None
    assert hint.splitlines()[-1] == "- and 980 more"
    assert str(tmp_path / "0000") not in session.state["told_stale"]


@pytest.mark.anyio
async def test_a_disk_that_does_not_answer_is_waited_for_a_second(tmp_path: Path) -> None:
    answers = threading.Event()

    class Slow(FileRead):
        def __getattribute__(self, name: str) -> Any:
            answers.wait(30)
            return super().__getattribute__(name)

    file = tmp_path / "a"
    file.write_text("a")
    session: Any = Session({str(file): Slow(0, 1, "digest", (), 1)})
    try:
        with anyio.fail_after(20):
            assert await stale_hint(session) is None
    finally:
        answers.set()
    assert not session.state
