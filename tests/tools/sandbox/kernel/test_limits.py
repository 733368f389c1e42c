"""Limits of sandboxed commands: each is passed for real, and what stopped it is named."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.tools.sandbox import confine_environment
from ostler.tools.sandbox.kernel import limits
from ostler.tools.sandbox.kernel.limits import LimitWatch
from ostler.tools.tool_config import Limits
from tests.tools.sandbox.sandbox_harness import SandboxHarness, find_python


def test_a_file_grows_up_to_its_limit(sandbox: SandboxHarness) -> None:
    profile = sandbox.build_profile(limits=Limits(file_mb=1))
    done = sandbox.run("exec head -c 5000000 /dev/zero > large", profile)
    assert (sandbox.project / "large").stat().st_size == 1024 * 1024
    explained = LimitWatch(profile.limits, 1).explain_end(done.code, None)
    assert explained is not None
    assert "file_mb" in explained
    assert sandbox.run("head -c 1000000 /dev/zero > small && ulimit -f 9999999", profile).code != 0
    assert (sandbox.project / "small").stat().st_size == 1_000_000


def test_the_limit_of_processes_is_the_kernels_for_a_plain_user(sandbox: SandboxHarness) -> None:
    profile = sandbox.build_profile(limits=Limits(processes=20))
    forks = "import os, time\nfor _ in range(100): os.fork() or time.sleep(1000)\nprint('started', flush=True)"
    done = sandbox.run(f'{find_python()} -c "{forks}"', profile)
    if sandbox.is_root:
        assert "started" in done.output, "the kernel binds root too: the words about it are wrong"
    else:
        assert "started" not in done.output
        assert "Resource temporarily unavailable" in done.output


class Watched:
    """A command that runs in the sandbox, and the watch over it."""

    def __init__(self, sandbox: SandboxHarness, arguments: list[str], bounds: Limits) -> None:
        self.process = subprocess.Popen(
            arguments,
            env=confine_environment(sandbox.build_variables()),
            cwd=sandbox.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            user=sandbox.user,
            group=sandbox.user,
            pass_fds=[int(arguments[arguments.index("--seccomp") + 1])],
        )
        self.watch = LimitWatch(bounds, self.process.pid)

    def wait_for_line(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline()

    def end(self) -> int:
        self.watch.kill()
        self.process.communicate()
        return self.process.returncode


@pytest.fixture
def started() -> Iterator[list[Watched]]:
    running: list[Watched] = []
    yield running
    for each in running:
        each.end()


def start(sandbox: SandboxHarness, running: list[Watched], script: str, bounds: Limits) -> Watched:
    with sandbox.wrap_arguments(
        [find_python(), "-c", script], sandbox.build_profile(limits=Limits(memory_mb=bounds.memory_mb))
    ) as wrapped:
        watched = Watched(sandbox, wrapped, bounds)
        running.append(watched)
        watched.wait_for_line()
    return watched


HOLD = "held = bytearray({0} << 20); print('held', flush=True); input()"


def test_memory_beyond_the_limit_is_seen(sandbox: SandboxHarness, started: list[Watched]) -> None:
    watched = start(sandbox, started, HOLD.format(80), Limits(memory_mb=60))
    found = watched.watch.find_exceeded()
    assert found is not None
    assert "60 MB" in found
    assert "memory_mb" in found
    assert LimitWatch(Limits(memory_mb=300), watched.process.pid).find_exceeded() is None


def test_memory_that_processes_share_counts_once(sandbox: SandboxHarness, started: list[Watched]) -> None:
    script = (
        "import os, sys\nheld = bytearray(b'x') * (40 << 20)\n"
        "for _ in range(5):\n    if not os.fork(): sys.stdin.read(); os._exit(0)\nprint('held', flush=True); input()"
    )
    watched = start(sandbox, started, script, Limits(memory_mb=150))
    assert watched.watch.find_exceeded() is None


def test_memory_of_a_process_that_left_its_parent_counts(sandbox: SandboxHarness, started: list[Watched]) -> None:
    script = (
        "import os\nread, write = os.pipe()\n"
        "if not os.fork():\n    os.setsid()\n    if os.fork(): os._exit(0)\n    held = bytearray(80 << 20)\n"
        "    os.write(write, b'x'); os.read(0, 1); os._exit(0)\nos.read(read, 1); print('held', flush=True); input()"
    )
    watched = start(sandbox, started, script, Limits(memory_mb=60))
    assert watched.watch.find_exceeded() is not None


def test_folders_in_memory_hold_no_more_than_the_limit(sandbox: SandboxHarness) -> None:
    profile = sandbox.build_profile(limits=Limits(memory_mb=20))
    for folder in ("/tmp", "/dev/shm"):
        assert "No space left" in sandbox.run(f"head -c 30000000 /dev/zero > {folder}/large", profile).output
        assert sandbox.run(f"head -c 10000000 /dev/zero > {folder}/small", profile).code == 0
    covered = "chmod 777 /run && head -c 1000000 /dev/zero > /run/x"
    assert "No space left" in sandbox.run(covered, profile).output


def test_a_bomb_of_processes_is_seen_and_ended_at_once(sandbox: SandboxHarness, started: list[Watched]) -> None:
    script = (
        "import os, time\nprint('begun', flush=True)\n"
        "for _ in range(60):\n    if not os.fork(): os.setsid(); time.sleep(1000)\nprint('more', flush=True); input()"
    )
    watched = start(sandbox, started, script, Limits(processes=30))
    watched.wait_for_line()
    found = watched.watch.find_exceeded()
    assert found is not None
    assert "30 processes" in found
    assert watched.end() != 0
    assert list(limits._list_processes(watched.process.pid)) == []


def test_threads_count_as_processes(sandbox: SandboxHarness, started: list[Watched]) -> None:
    script = (
        "import threading\nstop = threading.Event()\n"
        "for _ in range(40): threading.Thread(target=stop.wait, daemon=True).start()\nprint('x', flush=True); input()"
    )
    watched = start(sandbox, started, script, Limits(processes=30))
    assert watched.watch.find_exceeded() is not None
    assert LimitWatch(Limits(processes=60), watched.process.pid).find_exceeded() is None


# Control groups: this kernel's files, laid out in a folder.


def make_delegated(folder: Path, controllers: str = "cpu memory pids", enabled: str = "memory") -> tuple[str, str]:
    own = folder / "group/user.slice/ostler.service"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text(f"{controllers}\n")
    (own / "cgroup.subtree_control").write_text(f"{enabled}\n")
    mounts, membership = folder / "mountinfo", folder / "membership"
    mounts.write_text(f"1 2 0:3 / {folder}/group rw - cgroup2 cgroup2 rw\n")
    membership.write_text("4:memory:/other\n0::/user.slice/ostler.service\n")
    return str(mounts), str(membership)


def test_a_control_group_is_used_where_it_is_delegated_with_memory(tmp_path: Path) -> None:
    found = limits.find_delegated_group(*make_delegated(tmp_path))
    assert found is not None
    assert found == f"{tmp_path}/group/user.slice/ostler.service"
    group = limits.make_group(found, Limits(memory_mb=5))
    assert Path(group, "memory.max").read_text() == str(5 * 1024 * 1024)
    assert LimitWatch(Limits(memory_mb=5), os.getpid(), group).find_exceeded() is None
    Path(group, "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    explained = LimitWatch(Limits(memory_mb=5), os.getpid(), group).explain_end(None, 9)
    assert explained is not None
    assert "memory_mb" in explained
    entered = [*limits.build_group_prefix(group), "/bin/echo", "began"]
    assert subprocess.run(entered, stdout=subprocess.PIPE, check=True).stdout == b"began\n"
    assert Path(group, "cgroup.procs").read_text().strip().isdigit()


def test_without_delegated_memory_there_is_no_control_group(tmp_path: Path) -> None:
    assert limits.find_delegated_group(*make_delegated(tmp_path, controllers="cpu pids", enabled="")) is None
    assert limits.find_delegated_group(str(tmp_path / "none"), str(tmp_path / "none")) is None
