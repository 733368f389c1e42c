"""What commands do to repositories is an event, and a pull request that they open is linked to the session."""

from collections.abc import Callable

import pytest

from tests.support.background_commands import ended, printed, talk_behind
from tests.support.daemon import wait_until
from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.replies import calls, message, says

URL = "https://github.com/owner/repo/pull/12"
COMMIT = "git init -q . && git -c user.name=A -c user.email=a@b.c commit --allow-empty -m x"


def ran(stage: Stage, *commands: str) -> Talk:
    talk = stage.talk(rules={"allow": ["Bash"]})
    program = talk.folder / "gh"
    program.write_text(f"#!/bin/sh\necho {URL}\n")
    program.chmod(0o755)
    steps = [message(calls("Bash", {"command": command})) for command in commands]
    stage.api.script(talk.name, *steps, message(says("Done.")))
    assert talk.turn()["reason"] == "completed"
    return talk


def pulls(talk: Talk) -> list[Json]:
    found: list[Json] = talk.state()["metadata"].get("pr", [])
    return found


def test_a_commit_is_told_to_everybody(stage: Stage) -> None:
    talk = ran(stage, COMMIT, "true")
    [told] = talk.all("git.changed")
    [call, _] = [data["call"] for data in talk.all("tool.completed")]
    assert told["call_id"] == call["call_id"]
    assert told["commit"]["kind"] == "committed"
    assert call["output"]["git"]["commit"] == told["commit"]
    assert (told["push"], told["branch"], told["pr"]) == (None, None, None)
    assert pulls(talk) == []


def test_what_failed_is_not_told(stage: Stage) -> None:
    talk = ran(stage, f"{COMMIT}; false")
    assert talk.all("git.changed") == []


def test_a_pull_request_that_was_opened_is_linked_to_the_session(stage: Stage) -> None:
    talk = ran(
        stage, "PATH=.:$PATH gh pr create --fill", "PATH=.:$PATH gh pr create --fill; PATH=.:$PATH gh pr edit 12"
    )
    first, second = talk.all("git.changed")
    assert first["pr"] == {"number": 12, "url": URL, "action": "created"}
    assert second["pr"]["action"] == "edited"
    assert pulls(talk) == [{"number": 12, "url": URL}], "once"
    updated = [data["session"] for data in talk.all("session.updated") if data["session"]["metadata"]]
    assert updated[0]["metadata"]["pr"] == [{"number": 12, "url": URL}]


def test_what_a_client_keeps_in_the_metadata_stays(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]}, metadata={"own": 1, "pr": "mine"})
    (talk.folder / "gh").write_text(f"#!/bin/sh\necho {URL}\n")
    (talk.folder / "gh").chmod(0o755)
    stage.api.script(
        talk.name, message(calls("Bash", {"command": "PATH=.:$PATH gh pr create --fill"})), message(says("Done."))
    )
    talk.turn()
    assert talk.state()["metadata"] == {"own": 1, "pr": "mine"}


# Behind their calls.


@pytest.mark.parametrize("quietly", ["", " -q"])
def test_a_commit_of_a_task_is_told_when_it_ends(stage: Stage, quietly: str) -> None:
    talk, (task,) = talk_behind(stage, f"{COMMIT}{quietly}; until [ -e go ]; do sleep 0.02; done")
    (talk.folder / "go").touch()
    assert ended(talk, task)["status"] == "completed"
    told = talk.wait("git.changed")["data"]
    assert (told["call_id"], told["commit"]["kind"]) == (task["call_id"], "committed")


def test_a_task_that_failed_is_not_told_to_have_committed(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, f"{COMMIT}; exit 3")
    assert ended(talk, task)["status"] == "failed"
    assert talk.turn()["reason"] == "completed"
    assert talk.all("git.changed") == []


def test_a_pull_request_that_a_task_opened_is_linked_to_the_session(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, f"gh() {{ echo {URL}; }}; gh pr create --fill")
    assert ended(talk, task)["status"] == "completed"
    assert talk.wait("git.changed")["data"]["pr"] == {"number": 12, "url": URL, "action": "created"}
    wait_until(lambda: pulls(talk) == [{"number": 12, "url": URL}])


def test_what_a_task_did_while_no_daemon_ran_is_told_by_the_next(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, (task,) = talk_behind(stage, f"echo begun; until [ -e go ]; do sleep 0.02; done; {COMMIT} -q; touch done")
    printed(stage.daemon, task, "begun")
    stage.daemon.kill()
    (talk.folder / "go").touch()
    wait_until((talk.folder / "done").exists)
    stage.daemon.start()
    talk.reconnect(0)
    assert ended(talk, task)["status"] == "completed"
    assert talk.wait("git.changed")["data"]["commit"]["kind"] == "committed"
