"""Attempts to gain powers, over the kernel or over what is started outside. Each must fail inside, and succeed outside
where that can be shown."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ostler.tools.sandbox import clean_path, confined, scrubbed
from tests.tools.sandbox.box import BEGAN, GOT_IT, NOBODY, Box, python, refused


def test_gaining_powers_through_a_setuid_program(box: Box) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a setuid program of somebody else's")
    secret = box.place / "roots_own"
    secret.write_text("secret\n")
    # For root the way is the other one: a program that would become nobody.
    owner, reader = (0, "cat") if box.user else (NOBODY, "id")
    secret.chmod(0o600)
    program = box.outside_folder / "program"
    shutil.copy(shutil.which(reader) or "", program)
    os.chown(program, owner, owner)
    program.chmod(0o4755)
    goal = f"{program} {secret} | grep secret" if box.user else f"{program} | grep euid={NOBODY}"
    refused(box, f"{goal} && echo {GOT_IT}")


def test_no_new_privileges_and_no_capabilities(box: Box) -> None:
    status = dict(
        line.split(":\t", 1) for line in box.run("cat /proc/self/status").output.splitlines() if ":\t" in line
    )
    assert status["NoNewPrivs"] == "1"
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}


def test_making_a_device(box: Box) -> None:
    refused(box, f"mknod memory c 1 1 && echo {GOT_IT}", works_outside=box.is_root)


def test_opening_a_device_that_lies_in_the_workspace(box: Box) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a device")
    os.mknod(box.project / "null", 0o20666, os.makedev(1, 3))
    (box.project / "null").chmod(0o666)
    refused(box, f"echo x > null && echo {GOT_IT}")


def test_finding_devices_of_the_machine(box: Box) -> None:
    found = set(box.run("ls /dev").output.split())
    assert found <= {
        "console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
        "urandom", "zero",
    }  # fmt: skip
    assert not set(os.listdir("/dev")) <= found


def test_setting_the_program_that_the_kernel_runs_for_core_dumps(box: Box) -> None:
    place = "/proc/sys/kernel/core_pattern"
    attempt = f'old=$(cat {place}); echo "$old" > {place} && echo {GOT_IT}'
    refused(box, attempt, works_outside=box.is_root)
    if box.is_root:
        opened = box.run_arguments(["/bin/bash", "-c", attempt], without=("--remount-ro", "/proc"))
        assert GOT_IT in opened.output, "root needs the flag no more: /proc/sys is closed without it"


def test_changing_settings_of_the_kernel(box: Box) -> None:
    for place in ("/proc/sys/vm/swappiness", "/proc/sys/fs/pipe-max-size", "/proc/sys/kernel/printk"):
        refused(box, f"cat {place} > now; cat now > {place} && echo {GOT_IT}", works_outside=box.is_root)


def test_leaving_its_control_group(box: Box) -> None:
    mounted = Path("/proc/mounts").read_text().splitlines()
    places = [line.split()[1] for line in mounted if line.split()[2] in {"cgroup", "cgroup2"}]
    if not places:
        pytest.skip("no control groups are mounted here")
    writes = " || ".join(f"echo 0 > {place}/cgroup.procs" for place in places)
    works = box.is_root and os.access(f"{places[0]}/cgroup.procs", os.W_OK)
    refused(box, f"({writes}) && echo {GOT_IT}", works_outside=works)


def test_descriptors_but_the_first_three_are_not_inherited(box: Box) -> None:
    with open(box.put("daemon/token", "secret-token\n")) as token:
        seen = _descriptors(box)
        assert seen == {"0", "1", "2"}
        # The look itself would see one.
        os.set_inheritable(token.fileno(), True)
        assert str(token.fileno()) in _descriptors(box)


def test_loading_a_library_into_bwrap_through_the_environment(box: Box) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no compiler")
    mark = box.outside_folder / "loaded"
    source = box.put(
        "project/evil.c",
        "#include <fcntl.h>\n"
        f'__attribute__((constructor)) static void go(void) {{ open("{mark}", O_CREAT | O_WRONLY, 0600); }}\n',
    )
    library = box.project / "evil.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    library.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(library)}
    assert box.run_arguments(["/bin/true"], environment=confined(environment)).code == 0
    assert not mark.exists()
    box.run_arguments(["/bin/true"], environment=scrubbed(environment))
    assert mark.exists(), "bwrap did not load it: nothing is shown"


def test_running_a_planted_program_from_node_modules(box: Box) -> None:
    planted = box.put("project/node_modules/.bin/ls", f"#!/bin/sh\necho {GOT_IT}\n", 0o755)
    for first in (str(planted.parent), "node_modules/.bin", "./node_modules/.bin"):
        path = f"{first}:/usr/bin:/bin"
        attempt = ["/bin/bash", "-c", f"echo {BEGAN}; ls"]
        profile = box.profile("read_only")
        cleaned = {"PATH": clean_path(path, profile.roots)}
        inside = box.run_arguments(attempt, profile, environment=cleaned).output
        assert BEGAN in inside
        assert GOT_IT not in inside
        assert GOT_IT in box.run_arguments(attempt, profile, environment={"PATH": path}).output


def _descriptors(box: Box) -> set[str]:
    """As a command is started: with `posix_spawn`, its first three given."""
    reading, writing = os.pipe()
    script = "import os; print(*[each for each in range(256) if os.path.exists('/proc/self/fd/%d' % each)])"
    with box.wrapped([python(), "-c", script]) as arguments, open("/dev/null") as nothing:
        actions = [
            (os.POSIX_SPAWN_DUP2, each, place) for place, each in enumerate((nothing.fileno(), writing, writing))
        ]
        pid = os.posix_spawn(arguments[0], arguments, {}, file_actions=actions)
        os.close(writing)
        with open(reading) as output:
            text = output.read()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, text
    return set(text.split())
