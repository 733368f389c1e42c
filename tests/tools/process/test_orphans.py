"""Orphans: a process that detaches from its call completely is inherited by the daemon, which ends it."""

import subprocess
import sys

from tests.support.forked import run_script
from tests.support.repository import ROOT
from tests.support.tool_calls import Session

# A subreaper: it inherits orphans, as the daemon does, and runs commands. `STRAY` leaves one that cannot be told from
# any other: no marker, no group, no session, no output and no parent of the call.
SUBREAPER_SCRIPT = """
import anyio, ctypes, functools, os, subprocess, sys, threading, time
from pathlib import Path
from ostler.tools.process import orphans, tree
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.running.profile import ShellProfile
from tests.support.tool_calls import Session, is_alive, poll_until

if INHERITS:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
session = Session(Path(sys.argv[1]), Path(sys.argv[1]).parent / "outputs")
run = functools.partial(session.expect_result, Bash())
BARE = "env -i setsid bash -c 'echo $$ >stray.new; mv stray.new stray; exec sleep 1000' >/dev/null 2>&1 &"
STRAY = BARE + "until [ -e stray ]; do sleep 0.01; done;"
WAIT = "touch waiting; until [ -e go ]; do sleep 0.01; done;"

def there(name):
    return (session.folder / name).exists

def stray():
    return int((session.folder / "stray").read_text())

async def later_than(pid):
    ticks = os.sysconf("SC_CLK_TCK")
    await poll_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) * ticks > int(tree.read_start_time(pid)) + 1)

async def main():
    async with anyio.create_task_group() as group:
        BODY
anyio.run(main)
"""


def run_subreaper(session: Session, body: str, *, inherits: bool = True) -> None:
    lines = body.strip("\n").split("\n")
    code = SUBREAPER_SCRIPT.replace("INHERITS", str(inherits)).replace("BODY", "\n        ".join(lines))
    run_script(code, [str(session.folder)], ROOT)


def test_what_dropped_everything_of_its_call_ends_with_it(session: Session) -> None:
    body = """
result = await run(command=STRAY)
assert not is_alive(stray())
assert "sleep" in result.output.stderr, result
"""
    run_subreaper(session, body)


def test_what_a_profile_started_and_dropped_everything_of_it_ends_with_it(session: Session) -> None:
    body = """
os.environ["HOME"] = str(session.folder)
(session.folder / ".bashrc").write_text("cd; " + STRAY + "export A=1")
snapshot = await ShellProfile(session.folder.parent / "data", print).load_current()
assert snapshot.variables["A"] == "1"
assert not is_alive(stray())
"""
    run_subreaper(session, body)


def test_what_an_orphan_started_ends_with_it(session: Session) -> None:
    body = """
nested = STRAY.replace("exec sleep 1000", "sleep 1000 & wait")
await run(command=nested)
assert not is_alive(stray())
assert tree.list_main_thread_children(os.getpid()) == set(orphans._list_children())
assert not any(map(is_alive, orphans._list_children()))
"""
    run_subreaper(session, body)


def test_what_dropped_everything_ends_with_its_own_command_whichever_others_run(session: Session) -> None:
    body = """
group.start_soon(lambda: run(command=WAIT))
await poll_until(there("waiting"))
result = await run(command=STRAY)
assert not is_alive(stray())
assert "sleep" in result.output.stderr, result
(session.folder / "stray").unlink()
await run(command=STRAY)
assert not is_alive(stray())
assert len(session.processes.ended) == 2
(session.folder / "go").touch()
"""
    run_subreaper(session, body)


def test_what_another_command_dropped_is_left_to_that_one(session: Session) -> None:
    body = """
group.start_soon(lambda: run(command=STRAY + WAIT))
await poll_until(there("waiting"))
result = await run(command="true")
assert is_alive(stray())
assert result.output.stderr == ""
(session.folder / "go").touch()
await poll_until(lambda: len(session.processes.ended) == 2)
assert not is_alive(stray())
"""
    run_subreaper(session, body)


def test_an_orphan_that_may_be_another_commands_stays_until_that_one_ends(session: Session) -> None:
    body = """
group.start_soon(lambda: run(command=WAIT))
await poll_until(there("waiting"))
result = await run(command="ulimit -S -q 4096;" + STRAY)
assert is_alive(stray())
assert result.output.stderr == ""
(session.folder / "go").touch()
await poll_until(lambda: len(session.processes.ended) == 2)
assert not is_alive(stray())
"""
    run_subreaper(session, body)


def test_an_orphan_older_than_every_command_under_way_does_not_wait_for_them(session: Session) -> None:
    body = """
group.start_soon(lambda: run(command=STRAY + WAIT))
await poll_until(there("waiting"))
await later_than(stray())
group.start_soon(lambda: run(command="until [ -e end ]; do sleep 0.01; done"))
await poll_until(lambda: len(session.processes.started) == 2)
(session.folder / "go").touch()
await poll_until(lambda: len(session.processes.ended) == 1)
assert not is_alive(stray())
(session.folder / "end").touch()
"""
    run_subreaper(session, body)


def test_the_daemons_own_children_outlive_commands(session: Session) -> None:
    body = """
start = functools.partial(subprocess.Popen, ["sleep", "1000"], start_new_session=True)
older = start()
await later_than(older.pid)
group.start_soon(lambda: run(command=WAIT))
await poll_until(there("waiting"))
on_thread = await anyio.to_thread.run_sync(start)
expected = start()
with orphans.exclude_from_reaping(expected.pid):
    (session.folder / "go").touch()
    await poll_until(lambda: len(session.processes.ended) == 1)
    await run(command=STRAY)
    assert not is_alive(stray())
for child in (older, on_thread, expected):
    assert child.poll() is None
    child.kill()
    child.wait()
"""
    run_subreaper(session, body)


def test_a_program_that_inherits_no_orphans_keeps_all_its_children(session: Session) -> None:
    body = """
group.start_soon(lambda: run(command=WAIT))
await poll_until(there("waiting"))
child = subprocess.Popen(["sleep", "1000"])
(session.folder / "go").touch()
await poll_until(lambda: len(session.processes.ended) == 1)
assert child.poll() is None
child.kill()
child.wait()
"""
    run_subreaper(session, body, inherits=False)


def test_orphans_are_reaped_and_awaited_children_are_not() -> None:
    code = """
import ctypes, os, subprocess, sys, time
from ostler.tools.process import orphans
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
def dead(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z"
waits, lets_go = os.pipe()  # until its parent is gone, which would bury it
orphan = int(subprocess.check_output(["bash", "-c", "setsid head -c1 <&0 >/dev/null & echo $!"], stdin=waits))
os.write(lets_go, b".")
ours = subprocess.Popen(["bash", "-c", "exit 7"])
while not (dead(orphan) and dead(ours.pid)):
    time.sleep(0.01)
with orphans.exclude_from_reaping(ours.pid):
    assert orphans.reap_orphans() == []
    assert orphans.reap_orphans() == [orphan]
    assert not os.path.exists(f"/proc/{orphan}")
    assert orphans.reap_orphans() == []
    assert ours.wait() == 7
assert orphans.reap_orphans() == []
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
