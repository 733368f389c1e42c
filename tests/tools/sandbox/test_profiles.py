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
from ostler.tools.sandbox import NoSandbox, Profile, confine_environment, probe_sandbox, wrap
from ostler.tools.sandbox.bubblewrap import is_read_only
from ostler.tools.sandbox.mounts import MountKind
from ostler.tools.sandbox.probe import FLAGS
from ostler.tools.tool_config import Support
from tests.support.tool_calls import Session, is_alive, poll_until
from tests.tools.sandbox.sandbox_harness import (
    GOT_IT,
    CommandResult,
    SandboxHarness,
    assert_refused,
    find_python,
    require_sandbox,
)


@pytest.fixture
def in_tmp(sandbox: SandboxHarness) -> Iterator[Path]:
    """A folder below /tmp, which is covered."""
    folder = Path(tempfile.mkdtemp(prefix="ostler-root-", dir="/tmp"))
    sandbox.set_owner(folder)
    yield folder
    shutil.rmtree(folder)


def test_the_flags_are_the_ones_that_were_decided() -> None:
    wanted = "--unshare-all --unshare-user --disable-userns --cap-drop ALL --new-session"
    support = Support(True, "", "/usr/bin/bwrap")
    arguments = wrap(["/bin/true"], Profile("read_only", ("/usr",), "/usr"), support, filter_descriptor=None)
    assert " ".join(FLAGS) == wanted
    assert arguments[: len(FLAGS) + 1] == ["/usr/bin/bwrap", *FLAGS]
    assert arguments[-1] == "/bin/true"
    # Background tasks outlive the daemon.
    assert "--die-with-parent" not in arguments


def test_a_read_only_path_needs_a_mount_wherever_something_above_is_writable() -> None:
    read_only, writable = MountKind.READ_ONLY, MountKind.WRITABLE
    assert is_read_only("/a/b", {"/": read_only, "/a/b": read_only, "/c": writable})
    assert not is_read_only("/a/b", {"/": writable, "/a/b": read_only})
    assert not is_read_only("/a/b", {"/": read_only, "/a": writable, "/a/b": read_only})
    assert not is_read_only("/tmp/b", {"/": read_only, "/tmp": MountKind.SCRATCH, "/tmp/b": read_only})


def test_missing_bwrap_refuses_to_run() -> None:
    with pytest.raises(NoSandbox, match="not installed"):
        wrap(["/bin/true"], Profile("read_only", ("/usr",), "/usr"), probe_sandbox("/nowhere"), filter_descriptor=None)


def test_a_read_only_command_reads_the_workspace_and_writes_nothing_but_its_own_tmp(
    sandbox: SandboxHarness,
) -> None:
    sandbox.put_file("project/file", "content\n")
    profile = sandbox.build_profile("read_only")
    assert sandbox.run("cat file && echo x > /dev/null && echo y > /tmp/mine && cat /tmp/mine", profile).output == (
        "content\ny\n"
    )
    places = (
        "new",
        "file",
        f"{sandbox.home}/new",
        f"{sandbox.outside_folder}/new",
        "/var/tmp/new",
        "/dev/new",
        "/dev/shm/new",
    )
    for place in places:
        assert_refused(
            sandbox,
            f"echo x > {place} && echo {GOT_IT}",
            profile,
            works_outside=place.startswith(("new", str(sandbox))),
        )
    assert_refused(sandbox, f"echo x > new && echo {GOT_IT}", profile)


def test_tmp_run_proc_and_dev_are_fresh(sandbox: SandboxHarness, in_tmp: Path) -> None:
    (in_tmp / "file").write_text("x")
    listed = sandbox.run(
        "ls -A /tmp; ls -A /run; ls /proc | grep -c '^[0-9]'", sandbox.build_profile("read_only")
    ).output.split()
    assert len(listed) == 1
    assert int(listed[0]) < 8
    assert len([name for name in os.listdir("/proc") if name.isdigit()]) > 8


@pytest.mark.parametrize("kind", ["read_only", "workspace"])
def test_a_root_inside_tmp_is_still_there(sandbox: SandboxHarness, in_tmp: Path, kind: str) -> None:
    (in_tmp / "file").write_text("content\n")
    profile = sandbox.build_profile(kind, roots=(str(in_tmp),), folder=str(in_tmp))
    done = sandbox.run("cat file; pwd; echo x > new", profile)
    assert done.output.startswith(f"content\n{in_tmp}\n")
    assert (in_tmp / "new").exists() == (kind == "workspace")
    assert sandbox.run("ls /tmp", profile).output == f"{in_tmp.name}\n"


def test_a_root_below_a_covered_folder_is_there_and_its_neighbours_are_not(sandbox: SandboxHarness) -> None:
    sandbox.put_file("home/.docker/project/file", "content\n")
    sandbox.put_file("home/.docker/config.json", "secret\n")
    root = str(sandbox.home / ".docker/project")
    profile = sandbox.build_profile("read_only", roots=(root,), folder=root)
    assert sandbox.run("cat file; ls ..", profile).output == "content\nproject\n"


def test_credentials_and_the_daemons_folder_inside_a_root_are_covered(sandbox: SandboxHarness) -> None:
    sandbox.put_file("project/home/.ssh/id", "secret\n")
    sandbox.put_file("project/daemon/token", "secret\n")
    places = {"home": str(sandbox.project / "home"), "hidden": (str(sandbox.project / "daemon"),)}
    for kind in ("read_only", "workspace"):
        profile = sandbox.build_profile(kind, **places)
        assert_refused(
            sandbox,
            f"mv home h2; mv daemon d2; grep -r secret . && echo {GOT_IT}",
            profile,
            works_outside=False,
        )
    assert GOT_IT in sandbox.run_outside(f"grep -r secret . && echo {GOT_IT}").output
    assert sorted(os.listdir(sandbox.project)) == ["daemon", "home"]


@pytest.mark.usefixtures("alone")
def test_nothing_shows_through_a_cover_where_a_socket_lies_deeper_in_it(sandbox: SandboxHarness) -> None:
    places = {"home": str(sandbox.project / "home"), "hidden": (str(sandbox.project / "daemon"),)}
    secrets = [sandbox.put_file(f"project/{name}/run/secret", "secret\n") for name in ("home/.docker", "daemon")]
    with contextlib.ExitStack() as open_sockets:
        for secret in secrets:
            listener = open_sockets.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(secret.parent / "s"))
            listener.listen()
        for kind in ("read_only", "workspace"):
            inside = assert_refused(
                sandbox,
                f"grep -r secret . && echo {GOT_IT}",
                sandbox.build_profile(kind, **places),
                works_outside=kind == "workspace",
            )
            assert "Permission denied" not in inside.output
        assert (
            sandbox.run("ls -A home/.docker daemon", sandbox.build_profile(**places)).output
            == "daemon:\n\nhome/.docker:\n"
        )


def test_the_daemons_folder_is_covered_even_as_a_root(sandbox: SandboxHarness) -> None:
    token = sandbox.put_file("daemon/token", "secret\n")
    profile = sandbox.build_profile(roots=(str(sandbox.project), str(sandbox.daemon)))
    assert_refused(sandbox, f"grep secret {token} && echo {GOT_IT}", profile)


def test_a_second_root_inside_the_first_is_writable_too(sandbox: SandboxHarness) -> None:
    sandbox.put_file("project/sub/file")
    profile = sandbox.build_profile(roots=(str(sandbox.project), str(sandbox.project / "sub")))
    assert sandbox.run(
        "echo x > sub/new && echo y > new && mkdir sub/.git/x; cat sub/new new", profile
    ).output.endswith("x\ny\n")
    assert not (sandbox.project / "sub/.git").exists()


def test_the_calls_own_files_are_written_wherever_they_are(sandbox: SandboxHarness) -> None:
    output_file = sandbox.put_file("daemon/outputs/call.folder", "")
    profile = sandbox.build_profile("read_only", own_files=(str(output_file),))
    done = sandbox.run(f"pwd -P > {output_file}; ls {sandbox.daemon} {sandbox.daemon}/outputs", profile)
    assert output_file.read_text() == f"{sandbox.project}\n"
    assert done.output.count("token") == 0


def test_it_starts_in_its_folder(sandbox: SandboxHarness) -> None:
    sandbox.put_file("project/sub/file")
    assert (
        sandbox.run("pwd", sandbox.build_profile(folder=str(sandbox.project / "sub"))).output
        == f"{sandbox.project}/sub\n"
    )


def test_the_exit_code_and_the_signal_are_told_and_nothing_else_is_said(sandbox: SandboxHarness) -> None:
    assert sandbox.run("exit 42") == CommandResult(42, "")
    assert sandbox.run("kill -TERM $$") == CommandResult(128 + 15, "")
    assert sandbox.run("echo out; echo error >&2") == CommandResult(0, "out\nerror\n")


def test_a_background_task_outlives_the_daemon_that_started_it(sandbox: SandboxHarness) -> None:
    os.mkfifo(sandbox.project / "question")
    sandbox.set_owner(sandbox.project / "question")
    starter = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], close_fds=False).pid)"
    with sandbox.wrap_arguments(
        ["/bin/bash", "-c", "read -r REPLY < question; echo $REPLY > answer; mkfifo end; cat end"]
    ) as task:
        reading, writing = os.pipe()
        done = sandbox.run_process(
            [find_python(), "-c", starter, *task],
            confine_environment(sandbox.build_variables()),
            output=writing,
        )
        os.close(writing)
        assert done.code == 0
        with open(sandbox.project / "question", "w") as question:
            question.write("still there\n")
        while not (sandbox.project / "end").exists():
            os.sched_yield()
        assert (sandbox.project / "answer").read_text() == "still there\n"
        with open(sandbox.project / "end", "w"):
            pass
        # The end of its output: it is over, and its placeholders may go.
        with open(reading) as output:
            assert output.read().strip().isdigit()


def test_what_a_command_leaves_running_ends_with_it(sandbox: SandboxHarness) -> None:
    mark = f"sleep 1000.{os.getpid()}"
    assert sandbox.run(f"{mark} & setsid {mark} & (setsid {mark} &); sleep 0").code == 0
    running = sandbox.run_outside("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").output
    assert "bash" in running
    assert f"{mark} " not in running


@pytest.mark.anyio
async def test_a_command_behind_the_gate_is_ended_with_all_that_it_started(session: Session) -> None:
    support = require_sandbox()
    root = str(session.folder)
    output_file = session.folder / "pids"
    output_file.write_text("")
    profile = Profile("read_only", (root,), root, own_files=(str(output_file),))
    script = (
        f"read -r REPLY || exit 125; (setsid sleep 1000 & sleep 1000 & ) ; echo ready > {output_file}; wait; sleep 1000"
    )
    arguments = wrap(["/bin/bash", "--noprofile", "--norc", "-c", script], profile, support, filter_descriptor=None)
    output = os.open(session.folder / "output", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    environment = {**confine_environment(os.environ), "OSTLER_CALL": "call-of-the-sandbox"}
    try:
        call = CallId("call-of-the-sandbox")
        child = await process.start(arguments, environment, output, call, session.processes)
        await poll_until(lambda: output_file.read_text() == "ready\n")
        family = _list_process_tree(child.pid)
        assert len(family) >= 5
        with anyio.fail_after(20):
            await child.end_tree(call)
            await child.wait()
        child.release()
        assert [pid for pid in family if is_alive(pid)] == []
    finally:
        os.close(output)


def _list_process_tree(leader: int) -> list[int]:
    """A process and all below it."""
    found = [leader]
    for pid in found:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found
