"""EnterWorktree and ExitWorktree in turns: the folder and the roots move there and back, and nothing is lost."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ostler.tools.sandbox import probe_sandbox
from tests.server.engine.agents.test_agent_tool import agent
from tests.server.engine.turn.test_environment_updates import list_all_notes
from tests.support.daemon import wait_until
from tests.support.driver import Harness, SessionDriver
from tests.support.git import commit_files, list_branches, make_repository, run_git
from tests.support.hooks import declare_hook, list_hook_runs, read_hook_inputs
from tests.support.messages_api.replies import Block, calls, message
from tests.support.model_replies import DONE, bash, edit, read, run_scripted_turn, write
from tests.support.projects import (
    OSTLER_SETTINGS,
    explain_command,
    explain_rule,
    get_last_output,
    list_decisions,
    make_project,
    write_settings,
)

SANDBOX = probe_sandbox()
ALLOW = {"allow": ["EnterWorktree", "Bash", "ExitWorktree"]}


def enter(name: str | None = "one") -> Block:
    return calls("EnterWorktree", {"name": name} if name else {})


def leave(action: str = "remove", **given: Any) -> Block:
    return calls("ExitWorktree", {"action": action, **given})


def open_in_repository(harness: Harness, files: dict[str, str] | None = None, **session: Any) -> SessionDriver:
    folder = make_repository(make_project(harness), files)
    return harness.open_session(folder=folder, **{"rules": ALLOW, "on_ask": "deny", **session})


def get_tree(driver: SessionDriver, name: str = "one") -> Path:
    return driver.folder / ".ostler" / "worktrees" / name


def get_last_text(driver: SessionDriver) -> str:
    return driver.fetch_result_texts()[-1]


def run_another_turn(harness: Harness, driver: SessionDriver, *blocks: Block) -> None:
    """A further turn with a call a message: a script answers by the number of messages that the model has said."""
    said = [each for each in driver.fetch_messages() if each["role"] == "assistant"]
    harness.api.script(driver.name, *(DONE for _ in said), *map(message, blocks), otherwise=DONE)
    assert driver.run_turn()["reason"] == "completed"


# There and back.


def test_a_session_enters_a_worktree_works_inside_and_leaves_it(harness: Harness) -> None:
    driver = open_in_repository(harness, mode="acceptEdits")
    tree = get_tree(driver)
    run_scripted_turn(
        harness, driver, enter(), read(tree / "a.txt"), edit(tree / "a.txt", "one", "two"), bash("pwd && cat a.txt"),
        bash("git commit -qam second && git log --oneline | wc -l"), leave("keep"), bash("pwd && cat a.txt"),
    )  # fmt: skip
    outputs = [data["call"]["output"] for data in driver.list_event_data("tool.completed")]
    assert outputs[0] == {
        "worktree_path": str(tree),
        "worktree_branch": "worktree-one",
        "message": f"The session is now in the worktree {tree} on the branch worktree-one. ExitWorktree leads back.",
    }
    texts = driver.fetch_result_texts()
    assert texts[3] == f"{tree}\ntwo"
    assert texts[4].split()[-1] == "2"
    assert outputs[5] == {
        "action": "keep",
        "original_cwd": str(driver.folder),
        "worktree_path": str(tree),
        "worktree_branch": "worktree-one",
        "discarded_files": 0,
        "discarded_commits": 0,
        "tmux_session_name": None,
        "message": f"The session is back in {driver.folder}. The worktree {tree} on the branch worktree-one was kept.",
    }
    assert texts[6] == f"{driver.folder}\none"
    folders = [data["session"]["cwd"] for data in driver.list_event_data("session.updated")]
    assert str(tree) in folders
    assert folders[-1] == str(driver.folder)
    assert run_git(driver.folder, "log", "--format=%s", "-1", "worktree-one") == "second"


def test_the_model_is_told_the_folder_and_the_branch_as_changes(harness: Harness) -> None:
    driver = open_in_repository(harness)
    run_scripted_turn(harness, driver, enter(), leave())
    notes = "\n".join(list_all_notes(driver))
    tree = get_tree(driver)
    assert f"Working directory: {tree}" in notes
    assert f"now in the git repository {tree}, on worktree-one" in notes
    assert f"Working directory: {driver.folder}\n" in notes
    assert f"now in the git repository {driver.folder}, on main" in notes
    assert harness.api.prefix_changes == []


def test_without_a_name_there_is_a_random_one_and_one_at_a_time(harness: Harness) -> None:
    driver = open_in_repository(harness)
    run_scripted_turn(harness, driver, enter(None), enter("two"), leave(), leave(), enter("bad name"), leave())
    texts = driver.fetch_result_texts()
    first = driver.list_event_data("tool.completed")[0]["call"]["output"]["worktree_path"]
    assert f"This session is in the worktree {first} already. Leave it with ExitWorktree." in texts[1]
    assert texts[2] == f"The session is back in {driver.folder}. The worktree {first} was removed."
    for text in (texts[3], texts[5]):
        assert "This session is in no worktree that it made: there is none to leave." in text
    assert "'bad name' is no name for a worktree" in texts[4]
    assert list_branches(driver.folder) == ["main"]
    assert not Path(first).exists()


def test_changes_are_listed_and_lost_only_when_they_are_to_be_discarded(harness: Harness) -> None:
    driver = open_in_repository(harness, on_ask="ask", mode="acceptEdits")
    tree = get_tree(driver)
    commit = "git -c user.name=a -c user.email=a@b commit -qm second"
    run_scripted_turn(
        harness, driver, enter(), write(tree / "b.txt"), bash(f"git add b.txt && {commit}"), write(tree / "c.txt"),
        leave(), bash("pwd"),
    )  # fmt: skip
    refusal, place = driver.fetch_result_texts()[-2:]
    assert f"The worktree {tree} was not removed, and the session is still in it." in refusal
    assert "Uncommitted files:\n  ?? c.txt\n" in refusal
    assert "Commits that are merged nowhere:\n  " in refusal
    assert " second\n" in refusal
    assert place == str(tree)
    run_another_turn(harness, driver, leave(discard_changes=True))
    output = get_last_output(driver)
    assert (output["discarded_files"], output["discarded_commits"]) == (1, 1)
    assert output["message"].endswith("Discarded: 1 uncommitted file and 1 commit.")
    assert not tree.exists()
    assert list_branches(driver.folder) == ["main"]


def test_a_worktree_that_git_cannot_tell_about_stays(harness: Harness) -> None:
    driver = open_in_repository(harness)
    run_scripted_turn(harness, driver, enter())
    (get_tree(driver) / ".git").unlink()
    run_another_turn(harness, driver, leave(), leave("keep"))
    texts = driver.fetch_result_texts()
    assert "was not removed, and the session is still in it" in texts[1]
    assert f"The session is back in {driver.folder}." in texts[2]
    assert (get_tree(driver) / "a.txt").exists()


def test_a_worktree_that_somebody_removed_can_be_left(harness: Harness) -> None:
    driver = open_in_repository(harness)
    run_scripted_turn(harness, driver, enter())
    run_git(driver.folder, "worktree", "remove", "-f", "-f", str(get_tree(driver)))
    run_another_turn(harness, driver, leave(), bash("pwd"))
    told, place = driver.fetch_result_texts()[-2:]
    assert told == f"The session is back in {driver.folder}. The worktree {get_tree(driver)} is not there any more."
    assert place == str(driver.folder)


def test_the_folder_of_commands_is_found_again(harness: Harness) -> None:
    driver = open_in_repository(harness, {"sub/a.txt": "one\n"})
    run_scripted_turn(harness, driver, bash("cd sub"), enter(), bash("cd sub && pwd"), leave(), bash("pwd"))
    texts = driver.fetch_result_texts()
    assert (texts[2], texts[4]) == (str(get_tree(driver) / "sub"), str(driver.folder / "sub"))


@pytest.mark.parametrize("kind", ["none", "bare", "merge", "link"])
def test_where_no_worktree_can_be_made_the_model_is_told_why(harness: Harness, kind: str) -> None:
    folder = make_project(harness)
    if kind == "bare":
        run_git(folder, "init", "-q", "--bare")
    elif kind != "none":
        make_repository(folder)
    if kind == "merge":
        (folder / ".git" / "MERGE_HEAD").write_text(run_git(folder, "rev-parse", "HEAD"))
    elif kind == "link":
        (folder / ".ostler").symlink_to(harness.folder)
    driver = harness.open_session(folder=folder, rules=ALLOW)
    harness.api.script(driver.name, message(enter()), otherwise=DONE)
    turn_id = driver.start()
    if kind == "bare":  # git cannot be asked what it would run there
        driver.answer(driver.wait_for_ask(), "allow")
    driver.wait_for_turn_end(turn_id)
    wanted = {
        "none": "is in no git repository",
        "bare": "is in a bare repository",
        "merge": "is in the middle of a merge",
        "link": "is a link or a file",
    }[kind]
    assert "No worktree was made: " in get_last_text(driver)
    assert wanted in get_last_text(driver)
    assert driver.fetch_state()["cwd"] == str(folder)


# Permission.


def test_it_is_asked_about_unless_a_rule_allows_it_and_leaving_is_not(harness: Harness) -> None:
    driver = open_in_repository(harness, rules={"allow": ["EnterWorktree"]})
    run_scripted_turn(harness, driver, enter(), leave("keep"), enter("two"), leave(discard_changes=True), leave())
    assert list_decisions(driver) == [
        ("allow", "rule"), ("allow", "tool"), ("allow", "rule"), ("deny", "on_ask"), ("allow", "tool"),
    ]  # fmt: skip
    harness.daemon.call("session/update", session_id=driver.id, rules={"allow": ["ExitWorktree(remove)"]})
    given = {"action": "remove", "discard_changes": True}
    assert explain_rule(harness.daemon, driver.id, "ExitWorktree", **given)["behavior"] == "allow"
    unasked = open_in_repository(harness, rules={})
    run_scripted_turn(harness, unasked, enter())
    assert list_decisions(unasked) == [("deny", "on_ask")]
    assert list_branches(unasked.folder) == ["main"]


def test_in_plan_mode_no_worktree_is_made(harness: Harness) -> None:
    driver = open_in_repository(harness, mode="plan")
    run_scripted_turn(harness, driver, enter())
    assert list_decisions(driver) == [("deny", "mode")]


def test_what_git_would_run_is_asked_about_in_every_mode(harness: Harness) -> None:
    driver = open_in_repository(harness)
    run_git(driver.folder, "config", "filter.x.smudge", "touch ran")
    run_scripted_turn(harness, driver, enter())
    assert list_decisions(driver) == [("deny", "safety")]
    assert "filter.x.smudge" in get_last_text(driver)


def test_outside_of_the_worktree_is_outside_of_the_roots(harness: Harness) -> None:
    driver = open_in_repository(harness, mode="acceptEdits", on_ask="ask", rules={"allow": ["EnterWorktree"]})
    run_scripted_turn(harness, driver, enter(), bash("git log --format=%s"), bash("git status --short"))
    assert driver.fetch_result_texts()[1] == "first"
    assert not any(result.get("is_error") for result in driver.fetch_results())
    main, tree = driver.folder, get_tree(driver)
    for command in (f"cat {main}/a.txt", "cat ../../../a.txt", f"git -C {main} log", f"git -C {main} status",
                    "git -C ../../.. status", f"touch {main}/x", f"cd {main} && git commit -m x", f"cp a.txt {main}/x",
                    "touch ../x"):  # fmt: skip
        assert explain_command(driver, command)["behavior"] == "ask", command
    for command in ("cat a.txt", "git status", "git log --oneline", f"cat {tree}/a.txt", "touch x"):
        assert explain_command(driver, command)["behavior"] == "allow", command
    for place, wanted in ((main, "ask"), (tree, "allow")):
        assert explain_rule(harness.daemon, driver.id, "Read", file_path=str(place / "a.txt"))["behavior"] == wanted
        given = {"file_path": str(place / "new"), "content": "x"}
        assert explain_rule(harness.daemon, driver.id, "Write", **given)["behavior"] == wanted


def test_a_rule_about_commands_does_not_lead_back_into_the_main_checkout(harness: Harness) -> None:
    driver = open_in_repository(harness, {"sub/b.txt": "b\n"}, on_ask="ask", rules={"allow": ["EnterWorktree"]})
    run_scripted_turn(harness, driver, enter())
    main, tree = driver.folder, get_tree(driver)
    line = f"git -C {main} fetch"
    outside = (f"git -C {main} commit -m x", "git -C ../../.. commit -m x", f"cd {main} && git commit -m x",
               f"git --git-dir={main}/.git --work-tree={main} commit -m x", f"touch {main}/x",
               f"git -C {main}/sub add .", f"python3 {main}/run.py")  # fmt: skip
    inside = ("git commit -m x", "git -C sub add .", f"git -C {tree} push", "cd sub && git commit -m x",
              "python3 run.py", "git -C /elsewhere commit", line)  # fmt: skip
    for rules in (["Bash(git:*)", "Bash(cd:*)", "Bash(touch:*)", "Bash(python3:*)"], ["Bash"]):
        harness.daemon.call("session/update", session_id=driver.id, rules={"allow": [*rules, f"Bash({line})"]})
        for command in outside:
            explained = explain_command(driver, command)
            assert explained["behavior"] == "ask", (rules, command)
            assert "is in the main checkout" in explained["reason"], (rules, command)
        for command in inside:
            assert explain_command(driver, command)["behavior"] == "allow", (rules, command)


def test_rules_about_files_of_the_project_hold_in_the_worktree(harness: Harness) -> None:
    rules = {"deny": ["Read(/secret/**)", "Edit(./b.txt)"], "allow": ["Write(/open/**)", "Edit(/open/**)"]}
    files = {"secret/key": "k", "b.txt": "b", "open/c.txt": "c", "a.txt": "a"}
    driver = open_in_repository(
        harness, files, on_ask="ask", rules={**rules, "allow": ["EnterWorktree", *rules["allow"]]}
    )
    write_settings(driver.folder, OSTLER_SETTINGS, {"permissions": {"deny": ["Read(/a.txt)"]}})

    def explain(tool: str, path: Path) -> str:
        more = {"content": "x"} if tool == "Write" else {}
        return str(explain_rule(harness.daemon, driver.id, tool, file_path=str(path), **more)["behavior"])

    main, tree = driver.folder, get_tree(driver)
    run_scripted_turn(harness, driver, enter())
    for place in (main, tree):
        assert explain("Read", place / "secret" / "key") == "deny"
        assert explain("Read", place / "a.txt") == "deny"
        assert explain("Write", place / "b.txt") == "deny"
    assert explain("Write", tree / "open" / "new") == "allow"
    assert explain("Write", main / "open" / "new") == "ask"


def test_a_worktree_is_not_searched_from_outside(harness: Harness) -> None:
    driver = open_in_repository(harness, {"needle.txt": "needle\n"})
    search = (calls("Glob", {"pattern": "**/needle*"}), calls("Grep", {"pattern": "needle"}))
    run_scripted_turn(harness, driver, enter(), *search, leave("keep"), *search)
    texts = driver.fetch_result_texts()
    assert all("needle.txt" in text for text in texts[1:3])
    assert all("needle.txt" in text and "worktrees" not in text for text in texts[4:6])
    assert run_git(driver.folder, "status", "--porcelain") == ""


# Sessions.


def test_a_fork_begins_in_the_folder_and_a_list_shows_the_worktree(harness: Harness) -> None:
    driver = open_in_repository(harness, additional_directories=[str(harness.folder)])
    run_scripted_turn(harness, driver, enter())
    tree = str(get_tree(driver))
    listed = harness.daemon.call("session/list", cwd=str(driver.folder))["sessions"]
    assert [(each["id"], each["cwd"], each["additional_directories"]) for each in listed] == [(driver.id, tree, [])]
    fork = harness.daemon.call("session/fork", session_id=driver.id)
    assert (fork["cwd"], fork["additional_directories"]) == (str(driver.folder), [str(harness.folder)])
    harness.daemon.call("session/delete", session_id=fork["id"])
    assert Path(tree).is_dir()


@pytest.mark.parametrize("changed", [False, True])
def test_a_deleted_session_leaves_its_worktree_only_where_it_is_changed(harness: Harness, changed: bool) -> None:
    driver = open_in_repository(harness)
    run_scripted_turn(harness, driver, enter(), *([bash("touch new")] if changed else []))
    harness.daemon.call("session/delete", session_id=driver.id)
    assert get_tree(driver).exists() is changed


def test_two_sessions_of_one_folder_do_not_meet(harness: Harness) -> None:
    first = open_in_repository(harness)
    second = harness.open_session(folder=first.folder, rules=ALLOW, on_ask="deny")
    run_scripted_turn(harness, first, enter(), bash("touch mine"))
    run_scripted_turn(harness, second, enter(), leave(), enter("two"), leave())
    texts = second.fetch_result_texts()
    assert "exists already: take another name" in texts[0]
    assert "in no worktree that it made" in texts[1]
    assert "was removed" in texts[3]
    assert (get_tree(first) / "mine").exists()


# Hooks.


def test_hooks_are_told_and_one_can_refuse(harness: Harness) -> None:
    driver = open_in_repository(harness, trust=True)
    folder = driver.folder
    hooks = {
        "hooks": {
            **declare_hook("WorktreeCreate", f"cat >> {folder}/told; echo >> {folder}/told")["hooks"],
            **declare_hook("WorktreeRemove", f"cat >> {folder}/told; echo >> {folder}/told")["hooks"],
        }
    }
    write_settings(folder, OSTLER_SETTINGS, hooks)
    harness.daemon.call("trust/grant", folder=str(folder))
    run_scripted_turn(harness, driver, enter(), leave())
    told = read_hook_inputs(folder)
    assert [each["hook_event_name"] for each in told] == ["WorktreeCreate", "WorktreeRemove"]
    assert told[0]["name"] == "one"
    assert told[1]["worktree_path"] == str(get_tree(driver))
    assert [run["event"] for run in list_hook_runs(driver)] == ["WorktreeCreate", "WorktreeRemove"]
    write_settings(folder, OSTLER_SETTINGS, declare_hook("WorktreeCreate", "echo 'not today' >&2; exit 2"))
    harness.daemon.call("trust/grant", folder=str(folder))
    run_another_turn(harness, driver, enter())
    assert "a hook refuses it. not today" in get_last_text(driver)
    assert list_branches(folder) == ["main"]


def test_a_hook_can_make_the_worktree_instead(harness: Harness) -> None:
    driver = open_in_repository(harness, trust=True)
    folder = driver.folder
    make = "git worktree add -q -b from-hook trees/x >&2 && echo $PWD/trees/x"
    write_settings(folder, OSTLER_SETTINGS, declare_hook("WorktreeCreate", make))
    harness.daemon.call("trust/grant", folder=str(folder))
    run_scripted_turn(harness, driver, enter(), bash("pwd"), leave())
    output = driver.list_event_data("tool.completed")[0]["call"]["output"]
    assert (output["worktree_path"], output["worktree_branch"]) == (str(folder / "trees" / "x"), "from-hook")
    assert driver.fetch_result_texts()[1] == str(folder / "trees" / "x")
    assert not (folder / "trees" / "x").exists()


# The sandbox.


@pytest.mark.skipif(not SANDBOX.works, reason=f"no sandbox here: {SANDBOX.reason}")
def test_in_the_sandbox_git_commits_in_the_worktree_and_changes_nothing_else_of_its_repository(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness(OSTLER_SANDBOX__MODE="on")
    driver = open_in_repository(harness)
    commit = "git -c user.name=a -c user.email=a@b commit -qam second"
    git = driver.folder / ".git"
    elsewhere = ("git config core.fsmonitor x", f"git log; echo > {git}/index",
                 f"git log; echo > {git}/worktrees/one/commondir", f"git log; echo > {git}/hooks/pre-commit",
                 "echo > .git")  # fmt: skip
    run_scripted_turn(
        harness, driver, enter(), bash("echo two > a.txt && git status --short && git diff --stat | cat"), bash(commit),
        *map(bash, elsewhere), leave("keep"),
    )  # fmt: skip
    results = driver.fetch_results()
    assert "M a.txt" in driver.fetch_result_texts()[1]
    assert [bool(result.get("is_error")) for result in results] == [False] * 3 + [True] * len(elsewhere) + [False]
    assert run_git(driver.folder, "log", "--format=%s", "-1", "worktree-one") == "second"
    assert run_git(driver.folder, "log", "--format=%s", "-1", "main") == "first"
    assert run_git(driver.folder, "status", "--porcelain") == ""


# Restarts.


def test_a_session_is_in_its_worktree_after_a_restart(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = open_in_repository(harness)
    run_scripted_turn(harness, driver, enter())
    harness.restart()
    tree = get_tree(driver)
    assert driver.fetch_state()["cwd"] == str(tree)
    run_another_turn(harness, driver, bash("pwd"), enter("two"), bash("touch new"), leave())
    texts = driver.fetch_result_texts()
    assert texts[1] == str(tree)
    assert f"This session is in the worktree {tree} already" in texts[2]
    assert "?? new" in texts[4]
    harness.restart()
    run_another_turn(harness, driver, bash("rm new"), leave(), bash("pwd"))
    assert get_last_text(driver) == str(driver.folder)
    assert not tree.exists()
    assert list_branches(driver.folder) == ["main"]


@pytest.mark.parametrize("git_dies_too", [False, True])
def test_a_worktree_that_was_half_made_when_the_daemon_was_killed_is_taken_back(
    own_harness: Callable[..., Harness], tmp_path: Path, git_dies_too: bool
) -> None:
    """Git stands at a filter of the person's own, in the middle of the checkout, when the daemon dies."""
    person = tmp_path / "person"
    person.mkdir()
    wait = f"touch {tmp_path}/here; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; cat"
    (person / "slow").write_text(f"#!/bin/sh\n{wait}\n")
    (person / "slow").chmod(0o755)
    (person / ".gitconfig").write_text(f'[filter "slow"]\n\tsmudge = {person}/slow\n\tclean = cat\n')
    harness = own_harness(HOME=str(person))
    driver = open_in_repository(harness)
    commit_files(driver.folder, {".gitattributes": "b.txt filter=slow\n", "b.txt": "two\n"}, "attributes")
    harness.api.script(driver.name, message(enter()), otherwise=DONE)
    driver.start()
    wait_until((tmp_path / "here").exists)
    git = [each for each in psutil.process_iter(["cmdline"]) if "worktree-one" in (each.info["cmdline"] or ())]
    assert git
    assert get_tree(driver).exists()
    harness.daemon.kill()
    if git_dies_too:
        os.killpg(git[0].pid, signal.SIGKILL)
    else:
        (tmp_path / "go").touch()
    harness.restart()
    driver.fetch_state()
    wait_until(lambda: not get_tree(driver).exists())
    assert list_branches(driver.folder) == ["main"]
    assert driver.fetch_state()["cwd"] == str(driver.folder)
    (tmp_path / "go").touch()
    run_another_turn(harness, driver, enter(), leave())
    assert "was removed" in get_last_text(driver)


def test_an_agent_of_a_session_in_a_worktree_works_there_and_is_bound_by_the_same_rules(harness: Harness) -> None:
    files = {"secret/key": "k", "a.txt": "a"}
    rules = {"allow": ["EnterWorktree", "Bash(pwd)"], "deny": ["Read(/secret/**)"]}
    driver = open_in_repository(harness, files, rules=rules)
    tree = get_tree(driver)
    steps = (bash("pwd"), read(tree / "a.txt"), read(tree / "secret" / "key"), read(driver.folder / "a.txt"))
    work = agent(harness, *map(message, steps), otherwise=DONE)
    run_scripted_turn(harness, driver, enter(), work)
    results = [
        (data["call"]["tool"], data["call"]["is_error"], data["call"]["content"][0]["text"])
        for data in driver.list_event_data("tool.completed")
        if data["call"]["session_id"] != driver.id
    ]
    assert [(tool, failed) for tool, failed, _ in results] == [
        ("Bash", False),
        ("Read", False),
        ("Read", True),
        ("Read", True),
    ]
    assert results[0][2] == str(tree)
    assert "Read(/secret/**)" in results[2][2]
