"""Agents with a git worktree of their own: kept where something was changed, removed where not, and said which."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.engine.agents.test_agent_tool import agent, find_child, last_output, open_with, report
from tests.support.driver import Harness, SessionDriver
from tests.support.git import commit_files, list_branches, make_repository, run_git
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import Block, calls, hold, message, says
from tests.support.messages_api.scripts import Step
from tests.support.model_replies import DONE, bash

CHANGE = message(bash("touch made; git rev-parse --show-toplevel > where; git -C . status --short > status"))


def isolated(harness: Harness, *steps: Step, **given: Any) -> Block:
    return agent(harness, *steps, isolation="worktree", **given)


def open_in(harness: Harness, folder: Path, *blocks: Block, **session: Any) -> SessionDriver:
    return open_with(
        harness, *blocks, folder=folder, trust=True, mode="acceptEdits", rules={"allow": ["Bash"]}, **session
    )


def list_left(folder: Path) -> list[str]:
    """Worktrees and branches that are still there, and locks."""
    worktrees = folder / ".ostler" / "worktrees"
    assert "locked" not in run_git(folder, "worktree", "list", "--porcelain")
    return sorted(each.name for each in worktrees.iterdir()) if worktrees.exists() else []


def test_a_worktree_without_changes_goes_and_one_with_changes_stays(harness: Harness, tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "work")
    driver = open_in(
        harness, folder, isolated(harness, report("Nothing to do.")), isolated(harness, CHANGE, report("Made."))
    )
    driver.run_turn()
    untouched, changed = (
        data["call"]["output"] for data in driver.list_event_data("tool.completed") if data["call"]["tool"] == "Agent"
    )
    if untouched["result"] == "Made.":
        untouched, changed = changed, untouched
    assert (untouched["worktree"]["kept"], changed["worktree"]["kept"]) == (False, True)
    first, second = driver.fetch_result_texts()
    assert first.endswith("The worktree was removed: nothing was changed in it.")
    kept = changed["worktree"]
    assert second.endswith(
        f"The worktree {kept['path']} on the branch {kept['branch']} was kept: it has 3 changed files."
    )
    assert list_left(folder) == [Path(kept["path"]).name]
    assert sorted(list_branches(folder)) == sorted(["main", kept["branch"]])
    made = Path(kept["path"])
    assert (made / "where").read_text().strip() == str(made)
    assert "made" in (made / "status").read_text()
    assert not (folder / "made").exists()
    listed = harness.daemon.call("agent/list", session_id=driver.id)["agents"]
    assert {one["worktree"] for one in listed} == {kept["path"], untouched["worktree"]["path"]}


def test_what_it_does_outside_of_its_worktree_is_asked_about(harness: Harness, tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "work")
    outside = [f"git -C {folder} commit --allow-empty -m x", f"touch {folder}/made"]
    driver = open_with(
        harness,
        isolated(harness, *(message(bash(each)) for each in outside), report()),
        folder=folder,
        trust=True,
        mode="acceptEdits",
    )
    turn_id = driver.start()
    for each in outside:
        ask = driver.wait_for_ask()
        assert ask["call"]["input"]["command"] == each
        driver.answer(ask, "deny", message="Stay inside.")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert run_git(folder, "log", "--format=%s").split("\n") == ["first"]
    assert list_left(folder) == []


def test_one_in_the_background_says_at_its_end_what_became_of_it(harness: Harness, tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "work")
    driver = open_in(harness, folder, isolated(harness, CHANGE, report("Made."), run_in_background=True))
    driver.run_turn()
    output = last_output(driver)
    driver.wait("task.ended")
    shown = harness.daemon.call("task/output", task_id=output["task_id"])["output"]
    (name,) = list_left(folder)
    assert "Made.\n" in shown
    assert f"/{name} on the branch worktree-{name} was kept" in shown


def test_what_it_has_left_running_ends_before_its_worktree(harness: Harness, tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "work")
    lasting = message(bash("tail -f /dev/null", run_in_background=True))
    driver = open_in(harness, folder, isolated(harness, lasting, report("Started.")))
    driver.run_turn()
    child = find_child(driver)["id"]
    (task,) = harness.daemon.call("task/list", session_id=child)["tasks"]
    assert (task["status"], task["error"]) == (
        "killed",
        "The agent that started it has ended, and its worktree with it.",
    )
    assert list_left(folder) == []
    driver.expect_usable()


def test_one_that_goes_on_is_where_it_was_or_in_a_new_worktree(harness: Harness, tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "work")
    for steps, same in (([report()], False), ([CHANGE, report()], True)):
        driver = open_in(harness, folder, isolated(harness, *steps, message(bash("pwd > place")), report("Again.")))
        driver.run_turn()
        before = last_output(driver)["worktree"]["path"]
        block = calls("Agent", {"description": "b", "prompt": "Go on.", "resume": find_child(driver)["id"]})
        harness.api.script(driver.name, DONE, DONE, message(block), otherwise=DONE)
        driver.run_turn()
        after = last_output(driver)["worktree"]
        assert after["kept"]
        assert (after["path"] == before) is same
        assert (Path(after["path"]) / "place").read_text().strip() == after["path"]


def make_trouble(folder: Path, trouble: str) -> None:
    folder.mkdir()
    match trouble:
        case "bare" | "empty":
            run_git(folder, "init", "-q", *(["--bare"] if trouble == "bare" else []), ".")
        case "no folder":
            make_repository(folder)
            (folder / ".ostler").mkdir()
            (folder / ".ostler" / "worktrees").touch()
        case "merge":
            make_repository(folder)
            run_git(folder, "checkout", "-q", "-b", "other")
            commit_files(folder, {"a.txt": "theirs"}, "theirs")
            run_git(folder, "checkout", "-q", "main")
            commit_files(folder, {"a.txt": "ours"}, "ours")
            with pytest.raises(AssertionError):
                run_git(folder, "merge", "-q", "other")
        case "plan" | "cwd":
            make_repository(folder)
        case _:
            pass


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("none", "is in no git repository"),
        ("bare", "bare repository"),
        ("empty", "has no commit"),
        ("merge", "is in the middle of a merge: end it first"),
        ("no folder", ".ostler/worktrees"),
        ("plan", "In plan mode nothing is changed"),
        ("cwd", "cwd does not go with isolation"),
    ],
)
def test_where_none_can_be_made_the_call_says_why_and_nothing_is_left(
    harness: Harness, tmp_path: Path, trouble: str, words: str
) -> None:
    folder = tmp_path / "work"
    make_trouble(folder, trouble)
    before = sorted(str(each) for each in folder.rglob("*"))
    given = {"cwd": str(folder)} if trouble == "cwd" else {}
    mode = "plan" if trouble == "plan" else "default"
    driver = open_with(harness, isolated(harness, report("Fine."), **given), folder=folder, trust=True, mode=mode)
    turn_id = driver.start()
    if trouble == "bare":  # whether git would run something there is not known
        driver.answer(driver.wait_for_ask(), "allow")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    (text,) = driver.fetch_result_texts()
    assert words in text
    assert [one for one in driver.list_event_data("session.created") if one["session"]["parent_id"]] == []
    assert sorted(str(each) for each in folder.rglob("*")) == before


def test_after_a_kill_no_worktree_is_left_that_nobody_changed(
    own_harness: Callable[..., Harness], tmp_path: Path
) -> None:
    harness, gates = own_harness(), [Gate(), Gate()]
    folder = make_repository(tmp_path / "work")
    waited, background = gates
    driver = open_in(
        harness,
        folder,
        isolated(harness, message(says("So far.", hold(waited))), otherwise=report("Never.")),
        isolated(harness, otherwise=message(says(hold(background), "Done.")), run_in_background=True),
    )
    turn_id = driver.start()
    for _ in range(2):
        driver.wait("turn.started", lambda data: data["turn"]["session_id"] != driver.id)
    assert len(run_git(folder, "worktree", "list").strip().split("\n")) == 3
    harness.restart()
    driver.reconnect(after=0)
    background.open()
    waited.open()
    assert driver.wait("task.ended")["data"]["task"]["status"] == "completed"
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert list_left(folder) == []
    assert list_branches(folder) == ["main"]
    first, second = driver.fetch_result_texts()
    assert "did not complete: it was stopped before its end." in first
    assert "The worktree was removed: nothing was changed in it." in first
    assert second.startswith("Running in background as a")
