"""Nothing is left in a daemon of what calls did, however they ended: no process, descriptor or file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from PIL import Image

from ostler.tools.shell.output.output_file_pool import MOST
from tests.support.background_commands import descriptors, ended
from tests.support.daemon import wait_until
from tests.support.driver import Stage, Talk, no_children
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

LEAVES = "sleep 1000 & (setsid sleep 1000 >/dev/null 2>&1 &);"
ENDED: list[tuple[str, dict[str, Any]]] = [
    ("Bash", {"command": "echo short"}),
    ("Bash", {"command": "seq 1 20000"}),
    ("Bash", {"command": "head -c 2000000 /dev/urandom"}),
    ("Bash", {"command": f"{LEAVES} exit 3"}),
    ("Bash", {"command": "printf 'data:image/png;base64,'; base64 picture.png"}),
    ("Bash", {"command": f"{LEAVES} kill -9 $$"}),
    ("Bash", {"command": f"{LEAVES} wait", "timeout": 1000}),
    ("Grep", {"pattern": "(a+)+$", "path": "."}),
    ("Bash", {"command": "sed -i s/a/b/ file.txt"}),
    ("Sleep", {"seconds": 0.1}),
]
BEHIND = [
    ("Bash", {"command": f"{LEAVES} exit 3", "run_in_background": True}),
    ("Bash", {"command": f"{LEAVES} yes | head -c 1000000; wait", "run_in_background": True}),
    ("Monitor", {"command": f"{LEAVES} wait", "description": "d", "timeout": 1000}),
    ("Monitor", {"command": f"{LEAVES} echo ready; wait", "description": "d", "timeout": 60_000, "until": "ready"}),
]


def test_of_calls_that_ended_each_in_its_own_way(own_stage: Callable[..., Stage], tmp_path: Path) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    stage = own_stage(TMPDIR=str(spare))
    _session(stage)  # what is loaded for the first of each stays
    _at_rest(stage)
    before, files = descriptors(stage.daemon), _files(stage)
    _session(stage)
    _at_rest(stage)
    daemon = psutil.Process(stage.daemon.pid)
    wait_until(lambda: not daemon.children(recursive=True), seconds=30)  # the dead are buried now and then
    wait_until(lambda: descriptors(stage.daemon) <= before)
    assert os.listdir(spare) == []
    assert _files(stage) == files
    kept = list((stage.daemon.home / "spare").iterdir())
    assert len(kept) <= 2 * MOST
    assert [path for path in kept if path.stat().st_size] == []


def test_a_thousand_dead_orphans_are_buried_while_their_command_runs(own_stage: Callable[..., Stage]) -> None:
    """Each keeps a process number, of which the whole machine has no more than some ten thousand."""
    stage = own_stage()
    talk = stage.talk(rules={"allow": ["Bash"]})
    command = "for i in {1..1000}; do (true &); done; touch left; until [ -e go ]; do sleep 0.05; done"
    stage.api.script(talk.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = talk.start()
    wait_until((talk.folder / "left").exists)
    children = Path(f"/proc/{stage.daemon.pid}/task/{stage.daemon.pid}/children")
    wait_until(lambda: len(children.read_text().split()) < 500, seconds=4)
    (talk.folder / "go").touch()
    assert talk.ended(turn_id)["reason"] == "completed"


def test_of_a_command_that_ended_with_the_daemon(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(rules={"allow": ["Bash"]})
    command = {"command": f"{LEAVES} touch ready; wait"}
    stage.api.script(talk.name, message(calls("Bash", command)), otherwise=DONE)
    talk.start()
    wait_until((talk.folder / "ready").exists)
    assert stage.daemon.stop() == 0
    assert os.listdir(stage.daemon.home / "tasks") == []


def _at_rest(stage: Stage) -> None:
    """No process is left, and no file of a command."""
    no_children(stage.daemon)
    wait_until(lambda: not os.listdir(stage.daemon.home / "tasks"))


def _files(stage: Stage) -> set[str]:
    """All in its home, less what the database has beside it, and the empty files that are used again."""
    found = {path for path in stage.daemon.home.rglob("*") if path.parent.name != "spare"}
    return {path.name for path in found if not path.name.startswith("ostler.db-")}


def _session(stage: Stage) -> None:
    """One with everything in it, and its end."""
    talk = stage.talk(rules={"allow": ["Bash", "Edit", "Monitor"]})
    talk.file("file.txt", "a\n")
    Image.new("RGB", (3, 2), "red").save(talk.folder / "picture.png")
    steps = [message(calls(tool, given)) for tool, given in ENDED]
    starts = message(*(calls(tool, given) for tool, given in BEHIND))
    stage.api.script(talk.name, *steps, starts, otherwise=DONE)
    assert talk.turn()["reason"] == "completed"
    tasks = [talk.wait("task.started")["data"]["task"] for _ in BEHIND]
    stage.daemon.call("task/stop", task_id=tasks[1]["id"])
    for task in tasks:
        ended(talk, task)
    _interrupted(stage, talk)
    talk.stream.close()
    stage.daemon.call("session/delete", session_id=talk.id)


def _interrupted(stage: Stage, talk: Talk) -> None:
    command = {"command": f"{LEAVES} touch ready; wait"}
    stage.api.script(talk.name, otherwise=message(calls("Bash", command)))
    turn_id = talk.start()
    wait_until((talk.folder / "ready").exists)
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
