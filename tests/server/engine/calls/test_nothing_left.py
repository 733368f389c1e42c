"""Nothing is left in a daemon of what calls did, however they ended: no process, descriptor or file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from PIL import Image

from ostler.tools.shell.output.output_file_pool import MAX_SPARES
from tests.support.background_commands import count_descriptors, wait_for_task_end
from tests.support.daemon import wait_until
from tests.support.driver import Harness, SessionDriver, expect_no_children
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

SPAWN_ORPHANS = "sleep 1000 & (setsid sleep 1000 >/dev/null 2>&1 &);"
FOREGROUND_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("Bash", {"command": "echo short"}),
    ("Bash", {"command": "seq 1 20000"}),
    ("Bash", {"command": "head -c 2000000 /dev/urandom"}),
    ("Bash", {"command": f"{SPAWN_ORPHANS} exit 3"}),
    ("Bash", {"command": "printf 'data:image/png;base64,'; base64 picture.png"}),
    ("Bash", {"command": f"{SPAWN_ORPHANS} kill -9 $$"}),
    ("Bash", {"command": f"{SPAWN_ORPHANS} wait", "timeout": 1000}),
    ("Grep", {"pattern": "(a+)+$", "path": "."}),
    ("Bash", {"command": "sed -i s/a/b/ file.txt"}),
    ("Sleep", {"seconds": 0.1}),
]
BACKGROUND_CALLS = [
    ("Bash", {"command": f"{SPAWN_ORPHANS} exit 3", "run_in_background": True}),
    ("Bash", {"command": f"{SPAWN_ORPHANS} yes | head -c 1000000; wait", "run_in_background": True}),
    ("Monitor", {"command": f"{SPAWN_ORPHANS} wait", "description": "d", "timeout": 1000}),
    (
        "Monitor",
        {"command": f"{SPAWN_ORPHANS} echo ready; wait", "description": "d", "timeout": 60_000, "until": "ready"},
    ),
]


def test_of_calls_that_ended_each_in_its_own_way(own_harness: Callable[..., Harness], tmp_path: Path) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    harness = own_harness(TMPDIR=str(spare))
    _run_full_session(harness)  # what is loaded for the first of each stays
    _wait_for_cleanup(harness)
    before, files = count_descriptors(harness.daemon), _list_files(harness)
    _run_full_session(harness)
    _wait_for_cleanup(harness)
    daemon = psutil.Process(harness.daemon.pid)
    wait_until(lambda: not daemon.children(recursive=True), seconds=30)  # the dead are buried now and then
    wait_until(lambda: count_descriptors(harness.daemon) <= before)
    assert os.listdir(spare) == []
    assert _list_files(harness) == files
    kept = list((harness.daemon.home / "spare").iterdir())
    assert len(kept) <= 2 * MAX_SPARES
    assert [path for path in kept if path.stat().st_size] == []


def test_a_thousand_dead_orphans_are_buried_while_their_command_runs(own_harness: Callable[..., Harness]) -> None:
    """Each keeps a process number, of which the whole machine has no more than some ten thousand."""
    harness = own_harness()
    driver = harness.open_session(rules={"allow": ["Bash"]})
    command = "for i in {1..1000}; do (true &); done; touch left; until [ -e go ]; do sleep 0.05; done"
    harness.api.script(driver.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = driver.start()
    wait_until((driver.folder / "left").exists)
    children = Path(f"/proc/{harness.daemon.pid}/task/{harness.daemon.pid}/children")
    wait_until(lambda: len(children.read_text().split()) < 500, seconds=4)
    (driver.folder / "go").touch()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"


def test_of_a_command_that_ended_with_the_daemon(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(rules={"allow": ["Bash"]})
    command = {"command": f"{SPAWN_ORPHANS} touch ready; wait"}
    harness.api.script(driver.name, message(calls("Bash", command)), otherwise=DONE)
    driver.start()
    wait_until((driver.folder / "ready").exists)
    assert harness.daemon.stop() == 0
    assert os.listdir(harness.daemon.home / "tasks") == []


def _wait_for_cleanup(harness: Harness) -> None:
    """No process is left, and no file of a command."""
    expect_no_children(harness.daemon)
    wait_until(lambda: not os.listdir(harness.daemon.home / "tasks"))


def _list_files(harness: Harness) -> set[str]:
    """All in its home, less what the database has beside it, and the empty files that are used again."""
    found = {path for path in harness.daemon.home.rglob("*") if path.parent.name != "spare"}
    return {path.name for path in found if not path.name.startswith("ostler.db-")}


def _run_full_session(harness: Harness) -> None:
    """A session with every kind of call, a task that is stopped and a turn that is interrupted; then it is deleted."""
    driver = harness.open_session(rules={"allow": ["Bash", "Edit", "Monitor"]})
    driver.write_file("file.txt", "a\n")
    Image.new("RGB", (3, 2), "red").save(driver.folder / "picture.png")
    steps = [message(calls(tool, given)) for tool, given in FOREGROUND_CALLS]
    starts = message(*(calls(tool, given) for tool, given in BACKGROUND_CALLS))
    harness.api.script(driver.name, *steps, starts, otherwise=DONE)
    assert driver.run_turn()["reason"] == "completed"
    tasks = [driver.wait("task.started")["data"]["task"] for _ in BACKGROUND_CALLS]
    harness.daemon.call("task/stop", task_id=tasks[1]["id"])
    for task in tasks:
        wait_for_task_end(driver, task)
    _interrupt_turn(harness, driver)
    driver.stream.close()
    harness.daemon.call("session/delete", session_id=driver.id)


def _interrupt_turn(harness: Harness, driver: SessionDriver) -> None:
    command = {"command": f"{SPAWN_ORPHANS} touch ready; wait"}
    harness.api.script(driver.name, otherwise=message(calls("Bash", command)))
    turn_id = driver.start()
    wait_until((driver.folder / "ready").exists)
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
