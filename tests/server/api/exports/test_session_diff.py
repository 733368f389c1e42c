"""What a session did to files is kept before it is done, and shown as patches."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId, TurnId
from ostler.storage import Tx
from ostler.storage.repositories import file_history
from ostler.storage.repositories.file_history import FileSnapshot
from ostler.tools.fs.text_file import hash_bytes
from tests.server.engine.calls.file_changes import count_contents, diff_session, list_kept_files, run_editing_session
from tests.support.driver import Harness
from tests.support.inprocess import InProcessDaemon
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, edit, read, write
from tests.support.session_events import create_session, make_agent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "project"
    place.mkdir()
    return place


def test_all_turns_together_are_one_patch_from_before_the_first_to_now(harness: Harness, folder: Path) -> None:
    file = folder / "a.txt"
    file.write_text("one\ntwo\nthree\n")
    driver = run_editing_session(harness, folder, [read(file), edit(file, "two", "2")], [edit(file, "three", "3\n4")])
    assert diff_session(driver) == [
        {
            "path": str(file),
            "action": "changed",
            "patch": f"--- {file}\n+++ {file}\n@@ -1,3 +1,4 @@\n one\n-two\n-three\n+2\n+3\n+4\n",
            "additions": 3,
            "deletions": 2,
            "binary": False,
            "note": None,
        }
    ]


def test_created_and_deleted_files_are_told_by_path(harness: Harness, folder: Path) -> None:
    old = folder / "b.txt"
    old.write_text("old\n")
    driver = run_editing_session(
        harness, folder, [write(folder / "a.txt", "new\n"), read(old), write(old, "changed\n")]
    )
    old.unlink()
    created, deleted = diff_session(driver)
    assert (created["action"], created["additions"], created["deletions"]) == ("created", 1, 0)
    assert created["patch"].endswith("@@ -0,0 +1,1 @@\n+new\n")
    assert (deleted["action"], deleted["additions"], deleted["deletions"]) == ("deleted", 0, 1)
    assert deleted["patch"].endswith("-old\n")


def test_what_is_again_as_it_was_does_not_show(harness: Harness, folder: Path) -> None:
    file, new = folder / "a.txt", folder / "new.txt"
    file.write_text("a\n")
    driver = run_editing_session(
        harness, folder, [read(file), edit(file, "a", "b"), edit(file, "b", "a"), write(new, "x")]
    )
    new.unlink()
    assert diff_session(driver) == []


def test_what_others_did_to_a_file_since_shows_too(harness: Harness, folder: Path) -> None:
    file = folder / "a.txt"
    file.write_text("a\n")
    driver = run_editing_session(harness, folder, [read(file), edit(file, "a", "b")])
    file.write_text("b\nc\n")
    assert diff_session(driver)[0]["patch"].endswith("-a\n+b\n+c\n")


def test_a_turn_keeps_a_file_once_and_the_next_turn_again(harness: Harness, folder: Path) -> None:
    file = folder / "a.txt"
    file.write_text("a\n")
    file.chmod(0o750)
    driver = run_editing_session(
        harness, folder, [read(file), edit(file, "a", "b"), edit(file, "b", "c")], [edit(file, "c", "d")]
    )
    assert list_kept_files(harness, driver.id) == [(str(file), 0o100750, None)] * 2


def test_a_file_that_is_too_large_is_only_noted(harness: Harness, folder: Path) -> None:
    file = folder / "large.txt"
    file.write_text("begin\n" + ("y" * 99 + "\n") * 110_000)
    file.chmod(0o644)
    driver = run_editing_session(
        harness, folder, [calls("Read", {"file_path": str(file), "limit": 5}), edit(file, "begin", "start")]
    )
    assert list_kept_files(harness, driver.id) == [(str(file), 0o100644, "too_large")]
    (found,) = diff_session(driver)
    assert (found["action"], found["patch"]) == ("changed", None)
    assert "too large" in found["note"]


def test_a_patch_that_is_too_long_is_null_and_said(harness: Harness, folder: Path) -> None:
    driver = run_editing_session(
        harness, folder, [write(folder / "a.txt", "".join(f"line {number}\n" for number in range(30_000)))]
    )
    (found,) = diff_session(driver)
    assert (found["patch"], found["additions"], found["binary"]) == (None, None, False)
    assert "too long" in found["note"]


def test_what_is_no_text_now_is_called_binary(harness: Harness, folder: Path) -> None:
    file = folder / "a.txt"
    file.write_text("a\n")
    driver = run_editing_session(harness, folder, [read(file), edit(file, "a", "b")])
    file.write_bytes(b"\0\1\2" * 100)
    (found,) = diff_session(driver)
    assert (found["patch"], found["binary"]) == (None, True)


def test_a_file_that_became_a_folder_or_a_fifo_holds_nobody_up(harness: Harness, folder: Path) -> None:
    import os

    one, two = folder / "a", folder / "b"
    driver = run_editing_session(harness, folder, [write(one, "x"), write(two, "x")])
    one.unlink()
    one.mkdir()
    two.unlink()
    os.mkfifo(two)
    assert ["folder" in found["note"] or "FIFO" in found["note"] for found in diff_session(driver)] == [True, True]


def test_it_survives_the_death_of_the_daemon(own_harness: Callable[..., Harness], folder: Path) -> None:
    harness = own_harness()
    file = folder / "a.txt"
    file.write_text("a\n")
    driver = run_editing_session(harness, folder, [read(file), edit(file, "a", "b")])
    before = diff_session(driver)
    harness.restart()
    assert diff_session(driver) == before
    assert before[0]["patch"].endswith("-a\n+b\n")


def test_a_fork_begins_with_no_changes_of_its_own(harness: Harness, folder: Path) -> None:
    file = folder / "a.txt"
    file.write_text("a\n")
    driver = run_editing_session(harness, folder, [read(file), edit(file, "a", "b")])
    fork = harness.daemon.call("session/fork", session_id=driver.id)
    assert harness.daemon.call("session/diff", session_id=fork["id"])["files"] == []
    assert len(diff_session(driver)) == 1


def test_what_a_session_kept_goes_with_it(own_harness: Callable[..., Harness], folder: Path) -> None:
    harness = own_harness()
    file = folder / "a.txt"
    file.write_text("a secret\n")
    driver = run_editing_session(harness, folder, [read(file), edit(file, "secret", "public")])
    assert count_contents(harness) == 1
    harness.daemon.call("session/delete", session_id=driver.id)
    assert count_contents(harness) == 0
    assert harness.daemon.expect_error("session/diff", session_id=driver.id)["data"]["code"] == "session_not_found"


def test_what_an_agent_changed_belongs_to_the_diff_of_its_root(home: Path, folder: Path) -> None:
    file = folder / "a.txt"
    file.write_text("now\n")
    with InProcessDaemon(home) as daemon:
        root = create_session(daemon)
        agent = make_agent(daemon, root, "s_agent")

        def keep(session_id: str, turn_id: str, content: bytes) -> None:
            row = FileSnapshot(
                SessionId(session_id), TurnId(turn_id), str(file), 0o644, len(content), hash_bytes(content)
            )

            def work(tx: Tx) -> None:
                tx.file_history.keep(row, file_history.pack(content), 1000)

            daemon.write(work, root)

        # The agent changes the file in a turn that began later than its parent's, but before its parent does.
        keep(agent, "t_2", b"first\n")
        keep(root, "t_1", b"second\n")
        for session_id in (root, agent):
            (found,) = daemon.call("session/diff", session_id=session_id)["files"]
            assert found["patch"].endswith("-first\n+now\n")


def test_when_the_first_content_made_room_the_diff_begins_later_and_says_so(home: Path, folder: Path) -> None:
    file = folder / "a.txt"
    file.write_text("now\n")
    with InProcessDaemon(home) as daemon:
        session_id = SessionId(create_session(daemon))

        def work(tx: Tx) -> None:
            for number, content in enumerate((b"first\n" * 10, b"second\n")):
                row = FileSnapshot(
                    session_id, TurnId(f"t_{number}"), str(file), 0o644, len(content), hash_bytes(content)
                )
                tx.file_history.keep(row, file_history.pack(content), 17)

        daemon.write(work, session_id)
        (found,) = daemon.call("session/diff", session_id=session_id)["files"]
        assert found["patch"].endswith("-second\n+now\n")
        assert "begins later" in found["note"]


@pytest.mark.parametrize("where", ["file", "folder"])
def test_what_became_a_link_is_said_to_be_one_and_what_is_behind_it_is_not_shown(
    harness: Harness, folder: Path, where: str
) -> None:
    path = folder / "sub" / "a.txt"
    driver = harness.open_session(message(write(path, "mine\n")), DONE, folder=folder, mode="acceptEdits")
    driver.run_turn()
    secret = folder / "secret" / "a.txt"
    secret.parent.mkdir()
    secret.write_text("secret\n")
    path.unlink()
    if where == "file":
        path.symlink_to(secret)
    else:
        path.parent.rmdir()
        path.parent.symlink_to(secret.parent)
    (found,) = diff_session(driver)
    assert (found["path"], found["patch"]) == (str(path), None)
    assert found["note"] == "It is a link now, or in a folder that is one."
