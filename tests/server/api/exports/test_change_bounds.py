"""The bounds of what is told about changes: of `session/diff`, and of what editors say about a file."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.protocol.ids import SessionId, TurnId
from ostler.server.api.exports import session_diff
from ostler.server.engine.calls.client_diagnostics import read_diagnostics
from ostler.storage import Tx
from ostler.storage.repositories import file_history
from ostler.storage.repositories.file_history import FileSnapshot
from ostler.tools.fs.text_file import hash_bytes
from tests.support.inprocess import InProcessDaemon
from tests.support.session_events import create_session


class Changes:
    """A session, and what was kept of files that it changed."""

    def __init__(self, daemon: InProcessDaemon, folder: Path) -> None:
        self._daemon = daemon
        self._folder = folder
        self.session_id = SessionId(create_session(daemon))
        self._turns = 0

    def file(self, name: str, now: bytes | None, *before: bytes, most: int = 1_000_000) -> None:
        """A file that held these contents before one turn after the other; nothing: it was not there."""
        path = self._folder / name
        if now is not None:
            path.write_bytes(now)
        for content in before or (None,):
            self._turns += 1
            self._keep(str(path), TurnId(f"t_{self._turns}"), content, most)

    def _keep(self, path: str, turn_id: TurnId, content: bytes | None, most: int) -> None:
        row = FileSnapshot(self.session_id, turn_id, path, None)
        if content is not None:
            row = FileSnapshot(self.session_id, turn_id, path, 0o644, len(content), hash_bytes(content))
        packed = None if content is None else file_history.pack(content)

        def work(tx: Tx) -> None:
            tx.file_history.keep(row, packed, most)

        self._daemon.write(work, self.session_id)

    def diff(self) -> dict[str, Any]:
        found: dict[str, Any] = self._daemon.call("session/diff", session_id=self.session_id)
        return found


@pytest.fixture
def changes(home: Path, tmp_path: Path) -> Iterator[Changes]:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    with InProcessDaemon(home) as daemon:
        yield Changes(daemon, folder)


def test_files_beyond_the_limit_are_counted(changes: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert session_diff.MAX_FILES == 1000
    monkeypatch.setattr(session_diff, "MAX_FILES", 2)
    for name in ("a", "b", "c", "d"):
        changes.file(name, b"new\n")
    found = changes.diff()
    assert [os.path.basename(each["path"]) for each in found["files"]] == ["a", "b"]
    assert found["left_out"] == 2


def test_patches_that_are_together_too_long_are_left_out_and_that_is_said(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes.file("a", b"new\n" * 10)
    changes.file("b", b"new\n" * 1000)
    changes.file("c", b"new\n")
    monkeypatch.setattr(session_diff, "MAX_PATCHES_CHARS", 1000)
    first, second, third = changes.diff()["files"]
    assert (first["patch"] is None, second["patch"], third["patch"] is None) == (False, None, False)
    assert second["note"] == "Left out: the patches of the other files are long enough for one answer."


def test_a_file_that_is_again_as_a_later_turn_found_it_still_shows(changes: Changes) -> None:
    """What it held first is not kept any more: it may have been something else."""
    first, later = os.urandom(300), b"later\n"
    changes.file("a", later, first, later, most=100)
    (found,) = changes.diff()["files"]
    assert found["action"] == "changed"
    assert found["note"] == "What it held before its first changes is not kept any more; this begins later."


def test_a_file_that_is_too_large_now_is_not_read(changes: Changes) -> None:
    changes.file("a", b"x\n", b"old\n")
    path = Path(changes.diff()["files"][0]["path"])
    with path.open("wb") as file:
        file.truncate(10 * 1024 * 1024 + 1)
    (found,) = changes.diff()["files"]
    assert (found["action"], found["patch"], found["note"]) == ("changed", None, "It is too large to be compared.")


def test_a_nul_further_on_makes_it_no_text(changes: Changes) -> None:
    changes.file("a", b"line\n" * 5000 + b"\0\1\2\n", b"line\n")
    (found,) = changes.diff()["files"]
    assert (found["patch"], found["binary"], found["note"]) == (None, True, "It is no text.")


# What editors say.


def make_diagnostics(*messages: str, uri: str = "file:///a") -> list[dict[str, Any]]:
    return [{"uri": uri, "diagnostics": [{"message": message} for message in messages]}]


@pytest.mark.without_daemon
def test_of_a_flood_of_diagnostics_the_first_thousand_are_taken() -> None:
    found = read_diagnostics([*make_diagnostics(*["x"] * 800), *make_diagnostics(*["y"] * 800)], {"/a"})
    assert found is not None
    assert [each.message for each in found] == ["x"] * 800 + ["y"] * 200


@pytest.mark.without_daemon
def test_a_message_is_cut_after_two_thousand_characters() -> None:
    for output in (make_diagnostics("x" * 5000), "x" * 5000):
        found = read_diagnostics(output, {"/a"})
        assert found is not None
        assert [len(each.message) for each in found] == [2000]


@pytest.mark.without_daemon
def test_json_in_words_is_read_unless_it_is_too_long_for_the_event_loop() -> None:
    short = read_diagnostics(json.dumps(make_diagnostics("wrong")), {"/a"})
    assert short is not None
    assert [each.message for each in short] == ["wrong"]
    long = read_diagnostics(json.dumps(make_diagnostics("x" * 1_000_000)), {"/a"})
    assert long is not None
    assert [each.message[:20] for each in long] == ['[{"uri": "file:///a"']


@pytest.mark.without_daemon
@pytest.mark.parametrize("output", [None, 5, True])
def test_an_answer_that_is_neither_words_nor_a_list_says_nothing(output: Any) -> None:
    assert read_diagnostics(output, {"/a"}) is None


@pytest.mark.without_daemon
@pytest.mark.parametrize(
    "output",
    [
        "",
        [],
        make_diagnostics("x", uri="file:///b"),
        [{"uri": "file:///a"}],
        [{"uri": "http://[", "diagnostics": [{"message": "x"}]}],
        [{"uri": "file:///a", "diagnostics": [5, {"message": 5}]}],
        [5],
    ],
)
def test_what_is_about_another_file_or_makes_no_sense_is_nothing(output: Any) -> None:
    assert read_diagnostics(output, {"/a"}) == []
