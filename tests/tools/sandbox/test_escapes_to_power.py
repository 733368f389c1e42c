"""Attempts to gain powers, over the kernel or over what is started outside. Each must fail inside, and succeed outside
where that can be shown."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ostler.tools.sandbox import clean_path, confine_environment, scrub_environment
from tests.tools.sandbox.sandbox_harness import BEGAN, GOT_IT, NOBODY, SandboxHarness, assert_refused, find_python


def test_gaining_powers_through_a_setuid_program(sandbox: SandboxHarness) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a setuid program of somebody else's")
    secret = sandbox.place / "roots_own"
    secret.write_text("secret\n")
    # For root the way is the other one: a program that would become nobody.
    owner, reader = (0, "cat") if sandbox.user else (NOBODY, "id")
    secret.chmod(0o600)
    program = sandbox.outside_folder / "program"
    shutil.copy(shutil.which(reader) or "", program)
    os.chown(program, owner, owner)
    program.chmod(0o4755)
    goal = f"{program} {secret} | grep secret" if sandbox.user else f"{program} | grep euid={NOBODY}"
    assert_refused(sandbox, f"{goal} && echo {GOT_IT}")


def test_no_new_privileges_and_no_capabilities(sandbox: SandboxHarness) -> None:
    status = dict(
        line.split(":\t", 1) for line in sandbox.run("cat /proc/self/status").output.splitlines() if ":\t" in line
    )
    assert status["NoNewPrivs"] == "1"
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}


def test_making_a_device(sandbox: SandboxHarness) -> None:
    assert_refused(sandbox, f"mknod memory c 1 1 && echo {GOT_IT}", works_outside=sandbox.is_root)


def test_opening_a_device_that_lies_in_the_workspace(sandbox: SandboxHarness) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a device")
    os.mknod(sandbox.project / "null", 0o20666, os.makedev(1, 3))
    (sandbox.project / "null").chmod(0o666)
    assert_refused(sandbox, f"echo x > null && echo {GOT_IT}")


def test_finding_devices_of_the_machine(sandbox: SandboxHarness) -> None:
    found = set(sandbox.run("ls /dev").output.split())
    assert found <= {
        "console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
        "urandom", "zero",
    }  # fmt: skip
    assert not set(os.listdir("/dev")) <= found


def test_setting_the_program_that_the_kernel_runs_for_core_dumps(sandbox: SandboxHarness) -> None:
    place = "/proc/sys/kernel/core_pattern"
    attempt = f'old=$(cat {place}); echo "$old" > {place} && echo {GOT_IT}'
    assert_refused(sandbox, attempt, works_outside=sandbox.is_root)
    if sandbox.is_root:
        opened = sandbox.run_arguments(["/bin/bash", "-c", attempt], without=("--remount-ro", "/proc"))
        assert GOT_IT in opened.output, "root needs the flag no more: /proc/sys is closed without it"


def test_changing_settings_of_the_kernel(sandbox: SandboxHarness) -> None:
    for place in ("/proc/sys/vm/swappiness", "/proc/sys/fs/pipe-max-size", "/proc/sys/kernel/printk"):
        assert_refused(
            sandbox,
            f"cat {place} > now; cat now > {place} && echo {GOT_IT}",
            works_outside=sandbox.is_root,
        )


def test_leaving_its_control_group(sandbox: SandboxHarness) -> None:
    mounted = Path("/proc/mounts").read_text().splitlines()
    places = [line.split()[1] for line in mounted if line.split()[2] in {"cgroup", "cgroup2"}]
    if not places:
        pytest.skip("no control groups are mounted here")
    writes = " || ".join(f"echo 0 > {place}/cgroup.procs" for place in places)
    works = sandbox.is_root and os.access(f"{places[0]}/cgroup.procs", os.W_OK)
    assert_refused(sandbox, f"({writes}) && echo {GOT_IT}", works_outside=works)


def test_descriptors_but_the_first_three_are_not_inherited(sandbox: SandboxHarness) -> None:
    for each in map(int, os.listdir("/proc/self/fd")):  # what started these tests may have left some open
        with contextlib.suppress(OSError):
            os.set_inheritable(each, each <= 2)
    with open(sandbox.put_file("daemon/token", "secret-token\n")) as token:
        seen = _list_descriptors(sandbox)
        assert seen == {"0", "1", "2"}
        # An inherited one would be seen.
        os.set_inheritable(token.fileno(), True)
        assert str(token.fileno()) in _list_descriptors(sandbox)


def test_loading_a_library_into_bwrap_through_the_environment(sandbox: SandboxHarness) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no compiler")
    mark = sandbox.outside_folder / "loaded"
    source = sandbox.put_file(
        "project/evil.c",
        "#include <fcntl.h>\n"
        f'__attribute__((constructor)) static void go(void) {{ open("{mark}", O_CREAT | O_WRONLY, 0600); }}\n',
    )
    library = sandbox.project / "evil.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    library.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(library)}
    assert sandbox.run_arguments(["/bin/true"], environment=confine_environment(environment)).code == 0
    assert not mark.exists()
    sandbox.run_arguments(["/bin/true"], environment=scrub_environment(environment))
    assert mark.exists(), "bwrap did not load it: nothing is shown"


def test_running_a_planted_program_from_node_modules(sandbox: SandboxHarness) -> None:
    planted = sandbox.put_file("project/node_modules/.bin/ls", f"#!/bin/sh\necho {GOT_IT}\n", 0o755)
    for first in (str(planted.parent), "node_modules/.bin", "./node_modules/.bin"):
        path = f"{first}:/usr/bin:/bin"
        attempt = ["/bin/bash", "-c", f"echo {BEGAN}; ls"]
        profile = sandbox.build_profile("read_only")
        cleaned = {"PATH": clean_path(path, profile.roots)}
        inside = sandbox.run_arguments(attempt, profile, environment=cleaned).output
        assert BEGAN in inside
        assert GOT_IT not in inside
        assert GOT_IT in sandbox.run_arguments(attempt, profile, environment={"PATH": path}).output


def _list_descriptors(sandbox: SandboxHarness) -> set[str]:
    """The open descriptors of a command, started as the daemon does: with `posix_spawn`, the first three given."""
    reading, writing = os.pipe()
    script = "import os; print(*[each for each in range(256) if os.path.exists('/proc/self/fd/%d' % each)])"
    with sandbox.wrap_arguments([find_python(), "-c", script]) as arguments, open("/dev/null") as nothing:
        actions = [
            (os.POSIX_SPAWN_DUP2, each, place) for place, each in enumerate((nothing.fileno(), writing, writing))
        ]
        given = int(arguments[arguments.index("--seccomp") + 1])
        # bwrap closes the one that it reads the filter from.
        actions.append((os.POSIX_SPAWN_DUP2, given, given))
        pid = os.posix_spawn(arguments[0], arguments, {}, file_actions=actions)
        os.close(writing)
        with open(reading) as output:
            text = output.read()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, text
    return set(text.split())
