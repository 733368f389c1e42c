"""What a sandboxed command sees, and what it may write."""

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from ostler.protocol.ids import CallId
from ostler.tools.process import process
from ostler.tools.sandbox import NoSandbox, Profile, Support, confined, probe_sandbox, wrap
from ostler.tools.sandbox.bubblewrap import is_read_only
from ostler.tools.sandbox.mounts import Way
from ostler.tools.sandbox.probe import FLAGS
from tests.support.tool_calls import Session, alive, until
from tests.tools.sandbox.box import GOT_IT, Box, Done, needs_the_sandbox, python, refused


@pytest.fixture
def in_tmp(box: Box) -> Iterator[Path]:
    """A folder below /tmp, which is covered."""
    folder = Path(tempfile.mkdtemp(prefix="ostler-root-", dir="/tmp"))
    box.give(folder)
    yield folder
    shutil.rmtree(folder)


def test_the_flags_are_the_ones_that_were_decided() -> None:
    wanted = "--unshare-all --unshare-user --disable-userns --cap-drop ALL --new-session"
    support = Support(True, "", "/usr/bin/bwrap")
    arguments = wrap(["/bin/true"], Profile("read_only", ("/usr",), "/usr"), support)
    assert " ".join(FLAGS) == wanted
    assert arguments[: len(FLAGS) + 1] == ["/usr/bin/bwrap", *FLAGS]
    assert arguments[-1] == "/bin/true"
    # Background tasks outlive the daemon.
    assert "--die-with-parent" not in arguments


def test_a_read_only_path_needs_a_mount_wherever_something_above_is_writable() -> None:
    read_only, writable = Way.READ_ONLY, Way.WRITABLE
    assert is_read_only("/a/b", {"/": read_only, "/a/b": read_only, "/c": writable})
    assert not is_read_only("/a/b", {"/": writable, "/a/b": read_only})
    assert not is_read_only("/a/b", {"/": read_only, "/a": writable, "/a/b": read_only})
    assert not is_read_only("/tmp/b", {"/": read_only, "/tmp": Way.SCRATCH, "/tmp/b": read_only})


def test_missing_bwrap_refuses_to_run() -> None:
    with pytest.raises(NoSandbox, match="not installed"):
        wrap(["/bin/true"], Profile("read_only", ("/usr",), "/usr"), probe_sandbox("/nowhere"))


def test_a_read_only_command_reads_the_workspace_and_writes_nothing_but_its_own_tmp(box: Box) -> None:
    box.put("project/file", "content\n")
    profile = box.profile("read_only")
    assert box.run("cat file && echo x > /dev/null && echo y > /tmp/mine && cat /tmp/mine", profile).output == (
        "content\ny\n"
    )
    places = ("new", "file", f"{box.home}/new", f"{box.outside_folder}/new", "/var/tmp/new", "/dev/new", "/dev/shm/new")
    for place in places:
        refused(box, f"echo x > {place} && echo {GOT_IT}", profile, works_outside=place.startswith(("new", str(box))))
    refused(box, f"echo x > new && echo {GOT_IT}", profile)


def test_tmp_run_proc_and_dev_are_fresh(box: Box, in_tmp: Path) -> None:
    (in_tmp / "file").write_text("x")
    listed = box.run("ls -A /tmp; ls -A /run; ls /proc | grep -c '^[0-9]'", box.profile("read_only")).output.split()
    assert len(listed) == 1
    assert int(listed[0]) < 8
    assert len([name for name in os.listdir("/proc") if name.isdigit()]) > 8


@pytest.mark.parametrize("kind", ["read_only", "workspace"])
def test_a_root_inside_tmp_is_still_there(box: Box, in_tmp: Path, kind: str) -> None:
    (in_tmp / "file").write_text("content\n")
    profile = box.profile(kind, roots=(str(in_tmp),), folder=str(in_tmp))
    done = box.run("cat file; pwd; echo x > new", profile)
    assert done.output.startswith(f"content\n{in_tmp}\n")
    assert (in_tmp / "new").exists() == (kind == "workspace")
    assert box.run("ls /tmp", profile).output == f"{in_tmp.name}\n"


def test_a_root_below_a_covered_folder_is_there_and_its_neighbours_are_not(box: Box) -> None:
    box.put("home/.docker/project/file", "content\n")
    box.put("home/.docker/config.json", "secret\n")
    root = str(box.home / ".docker/project")
    profile = box.profile("read_only", roots=(root,), folder=root)
    assert box.run("cat file; ls ..", profile).output == "content\nproject\n"


def test_credentials_and_the_daemons_folder_inside_a_root_are_covered(box: Box) -> None:
    box.put("project/home/.ssh/id", "secret\n")
    box.put("project/daemon/token", "secret\n")
    places = {"home": str(box.project / "home"), "hidden": (str(box.project / "daemon"),)}
    for kind in ("read_only", "workspace"):
        profile = box.profile(kind, **places)
        refused(box, f"mv home h2; mv daemon d2; grep -r secret . && echo {GOT_IT}", profile, works_outside=False)
    assert GOT_IT in box.outside(f"grep -r secret . && echo {GOT_IT}").output
    assert sorted(os.listdir(box.project)) == ["daemon", "home"]


@pytest.mark.usefixtures("alone")
def test_nothing_shows_through_a_cover_where_a_socket_lies_deeper_in_it(box: Box) -> None:
    places = {"home": str(box.project / "home"), "hidden": (str(box.project / "daemon"),)}
    secrets = [box.put(f"project/{name}/run/secret", "secret\n") for name in ("home/.docker", "daemon")]
    with contextlib.ExitStack() as open_sockets:
        for secret in secrets:
            listener = open_sockets.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(secret.parent / "s"))
            listener.listen()
        for kind in ("read_only", "workspace"):
            inside = refused(
                box,
                f"grep -r secret . && echo {GOT_IT}",
                box.profile(kind, **places),
                works_outside=kind == "workspace",
            )
            assert "Permission denied" not in inside.output
        assert box.run("ls -A home/.docker daemon", box.profile(**places)).output == "daemon:\n\nhome/.docker:\n"


def test_the_daemons_folder_is_covered_even_as_a_root(box: Box) -> None:
    token = box.put("daemon/token", "secret\n")
    profile = box.profile(roots=(str(box.project), str(box.daemon)))
    refused(box, f"grep secret {token} && echo {GOT_IT}", profile)


def test_a_second_root_inside_the_first_is_writable_too(box: Box) -> None:
    box.put("project/sub/file")
    profile = box.profile(roots=(str(box.project), str(box.project / "sub")))
    assert box.run("echo x > sub/new && echo y > new && mkdir sub/.git/x; cat sub/new new", profile).output.endswith(
        "x\ny\n"
    )
    assert not (box.project / "sub/.git").exists()


def test_the_calls_own_files_are_written_wherever_they_are(box: Box) -> None:
    told = box.put("daemon/outputs/call.folder", "")
    profile = box.profile("read_only", own_files=(str(told),))
    done = box.run(f"pwd -P > {told}; ls {box.daemon} {box.daemon}/outputs", profile)
    assert told.read_text() == f"{box.project}\n"
    assert done.output.count("token") == 0


def test_it_starts_in_its_folder(box: Box) -> None:
    box.put("project/sub/file")
    assert box.run("pwd", box.profile(folder=str(box.project / "sub"))).output == f"{box.project}/sub\n"


def test_the_exit_code_and_the_signal_are_told_and_nothing_else_is_said(box: Box) -> None:
    assert box.run("exit 42") == Done(42, "")
    assert box.run("kill -TERM $$") == Done(128 + 15, "")
    assert box.run("echo out; echo error >&2") == Done(0, "out\nerror\n")


def test_a_background_task_outlives_the_daemon_that_started_it(box: Box) -> None:
    os.mkfifo(box.project / "question")
    box.give(box.project / "question")
    starter = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid)"
    with box.wrapped(
        ["/bin/bash", "-c", "read -r REPLY < question; echo $REPLY > answer; mkfifo end; cat end"]
    ) as task:
        reading, writing = os.pipe()
        done = box.start([python(), "-c", starter, *task], confined(box.variables()), output=writing)
        os.close(writing)
        assert done.code == 0
        with open(box.project / "question", "w") as question:
            question.write("still there\n")
        while not (box.project / "end").exists():
            os.sched_yield()
        assert (box.project / "answer").read_text() == "still there\n"
        with open(box.project / "end", "w"):
            pass
        # The end of its output: it is over, and its placeholders may go.
        with open(reading) as output:
            assert output.read().strip().isdigit()


def test_what_a_command_leaves_running_ends_with_it(box: Box) -> None:
    mark = f"sleep 1000.{os.getpid()}"
    assert box.run(f"{mark} & setsid {mark} & (setsid {mark} &); sleep 0").code == 0
    running = box.outside("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").output
    assert "bash" in running
    assert f"{mark} " not in running


@pytest.mark.anyio
async def test_a_command_behind_the_gate_is_ended_with_all_that_it_started(session: Session) -> None:
    support = needs_the_sandbox()
    root = str(session.folder)
    told = session.folder / "pids"
    told.write_text("")
    profile = Profile("read_only", (root,), root, own_files=(str(told),))
    script = f"read -r REPLY || exit 125; (setsid sleep 1000 & sleep 1000 & ) ; echo ready > {told}; wait; sleep 1000"
    arguments = wrap(["/bin/bash", "--noprofile", "--norc", "-c", script], profile, support)
    output = os.open(session.folder / "output", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    environment = {**confined(os.environ), "OSTLER_CALL": "call-of-the-sandbox"}
    try:
        call = CallId("call-of-the-sandbox")
        child = await process.start(arguments, environment, output, call, session.processes)
        await until(lambda: told.read_text() == "ready\n")
        family = _family(child.pid)
        assert len(family) >= 5
        with anyio.fail_after(20):
            await child.end_tree(call)
            await child.wait()
        child.release()
        assert [pid for pid in family if alive(pid)] == []
    finally:
        os.close(output)


def _family(leader: int) -> list[int]:
    """A process and all below it."""
    found = [leader]
    for pid in found:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found
