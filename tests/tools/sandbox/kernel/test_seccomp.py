"""The seccomp filter: what it refuses, each call tried for real, and that what builds use goes on working."""

import errno
import os
import platform
import shutil
import struct
from collections.abc import Iterator

import pytest

from ostler.tools.sandbox.kernel import seccomp
from tests.support.tables import try_each
from tests.tools.sandbox.sandbox_harness import SandboxHarness, find_python, require_sandbox


@pytest.fixture(autouse=True)
def filters() -> None:
    if not require_sandbox().filters:
        pytest.skip(f"there is no seccomp filter here: the machine is {platform.machine()!r}")


def call(sandbox: SandboxHarness, body: str, kind: str = "workspace", **changes: object) -> list[str]:
    """Runs a script with `libc`, `call(number, …)` and `n`, the numbers; its lines."""
    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    known = {name: numbers[column] for name, *numbers in (*seccomp._REFUSED, *seccomp._MISSING)}
    known |= {"unshare": seccomp._UNSHARE[column], "clone": seccomp._CLONE[column]}
    script = f"""
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
n = {known!r}
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(number, *[each if isinstance(each, bytes) else ctypes.c_long(each) for each in arguments])
    return errno.errorcode.get(ctypes.get_errno(), "fine") if result < 0 else "fine"
{body}
"""
    sandbox.put_file("project/attempt.py", script)
    done = sandbox.run(f"{find_python()} attempt.py", sandbox.build_profile(kind, **changes))
    return done.output.splitlines()


def test_calls_that_no_build_needs_are_refused_without_an_end(sandbox: SandboxHarness) -> None:
    body = """
for name, number in n.items():
    if number is not None and name not in ("unshare", "clone"):
        print(name, call(number, 0, 0, 0, 0, 0, 0))
"""
    lines = call(sandbox, body)
    found = dict(line.split() for line in lines)
    assert found.pop("clone3") == "ENOSYS"
    assert {found.pop(name) for name in ("io_uring_setup", "io_uring_enter", "io_uring_register")} == {"ENOSYS"}
    assert {"ptrace", "keyctl", "add_key", "bpf", "userfaultfd", "perf_event_open", "mount", "fsopen"} <= found.keys()
    assert set(found.values()) == {"EPERM"}


def test_outside_the_same_calls_are_not_refused_by_the_filter(sandbox: SandboxHarness) -> None:
    """`ptrace(TRACEME)` works everywhere, so that its refusal is the filter's."""
    attempt = f"{find_python()} -c 'import ctypes; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))'"
    assert sandbox.run(attempt).output == "-1\n"
    assert sandbox.run_arguments(["/bin/bash", "-c", attempt], filtered=False).output == "0\n"


def test_new_namespaces_are_refused_and_threads_are_not(sandbox: SandboxHarness) -> None:
    body = """
for bit in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    print(call(n["unshare"], bit), call(n["clone"], bit | 17, 0, 0, 0, 0) if bit != 0x80 else "EPERM")
import threading
threading.Thread(target=print, args=("thread",)).start()
print(call(n["unshare"], 0x400))
"""
    assert sorted(call(sandbox, body)) == sorted([*["EPERM EPERM"] * 8, "thread", "fine"])


FAMILIES = """
for family in range(50):
    for kind in (1, 2, 3, 5):
        try:
            socket.socket(family, kind, 0 if family != 16 else 0).close()
            print(family, kind)
        except OSError as error:
            if family == 1:
                assert error.errno == errno.EPERM, error
"""


@pytest.mark.parametrize("kind", ["read_only", "workspace"])
def test_of_all_families_of_sockets_only_those_of_the_internet_and_routes_remain(
    sandbox: SandboxHarness, kind: str
) -> None:
    if kind == "read_only":
        script = sandbox.put_file("project/attempt.py", f"import errno, socket\n{FAMILIES}")
        lines = sandbox.run(f"{find_python()} {script}", sandbox.build_profile(kind)).output.splitlines()
    else:
        lines = call(sandbox, FAMILIES)
    assert {line.split()[0] for line in lines} <= {"2", "10", "16"}
    assert "2 1" in lines


def test_netlink_answers_about_routes_alone(sandbox: SandboxHarness) -> None:
    body = """
for protocol in range(23):
    try:
        socket.socket(16, 3, protocol).close()
        print(protocol)
    except OSError as error:
        assert error.errno in (errno.EPERM, errno.EPROTONOSUPPORT), error
"""
    assert call(sandbox, body) == ["0"]


def test_a_pair_of_sockets_can_be_made_but_none_that_could_be_connected_elsewhere(sandbox: SandboxHarness) -> None:
    body = """
for kind in (1, 5, 2, 3):
    for flags in (0, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK):
        try:
            a, b = socket.socketpair(1, kind | flags)
            a.send(b"x"); print(kind, b.recv(1))
        except PermissionError:
            print(kind, "refused")
"""
    assert call(sandbox, body) == [f"{kind} b'x'" for kind in (1, 1, 5, 5)] + [
        f"{kind} refused" for kind in (2, 2, 3, 3)
    ]


def test_where_a_person_allows_unix_sockets_they_can_be_made(sandbox: SandboxHarness) -> None:
    body = "s, c = socket.socket(1), socket.socket(1); s.bind('/tmp/s'); s.listen(); c.connect('/tmp/s'); print('well')"
    assert call(sandbox, body, unix_sockets="allow") == ["well"]
    assert "PermissionError" in call(sandbox, body)[-1]


def test_a_personality_that_changes_the_layout_of_memory_is_refused(sandbox: SandboxHarness) -> None:
    number = {"x86_64": 135, "aarch64": 92}[platform.machine()]
    body = f"for value in (0xffffffff, 0, 0x40000, 0x400000, 0x8): print(call({number}, value))"
    assert call(sandbox, body) == ["fine", "fine", "EPERM", "EPERM", "fine"]


def test_calls_of_other_architectures_are_refused(sandbox: SandboxHarness) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the trial is machine code of x86-64")
    # x32: the same numbers with a bit. `int 0x80`: 20 is getpid there, and writev here.
    body = """
import mmap
print(call(0x40000000 + 39), call(0x40000000 + 41, 1, 1, 0))
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20; int 0x80; ret
run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
print(run())
"""
    lines = call(sandbox, body)
    assert lines[0] == "ENOSYS ENOSYS"
    assert lines[1] in {str(-errno.EPERM), str(-errno.ENOSYS)}


EVERYDAY = {
    "bash": ["/bin/bash", "-c", "set -m; sleep 0.01 & wait %1 && (cat <(echo well)) | cat && coproc cat; echo done"],
    "multiprocessing": [
        "PYTHON", "-c",
        "import multiprocessing as m; print(m.get_context('fork').Pool(2).map(abs, [-1, -2]))",
    ],
    "asyncio": [
        "PYTHON", "-c",
        "import asyncio as a\nasync def f():\n p = await a.create_subprocess_exec('echo', 'well', stdout=-1)\n"
        " print((await p.communicate())[0])\na.run(f())",
    ],
    "threads": [
        "PYTHON", "-c", "import concurrent.futures as c; print(list(c.ThreadPoolExecutor(4).map(abs, range(9))))",
    ],
    "loopback": [
        "PYTHON", "-c",
        "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); "
        "print(socket.getaddrinfo('localhost', 80)[0][0])",
    ],
    "git": ["git", "init", "-q", "/tmp/new"],
    "node": [
        "node", "-e",
        "const c = require('child_process'), f = require('fs'); f.promises.readFile('/etc/hostname').then(() => "
        "{ console.log(c.execSync('echo well').toString()); const k = c.fork('-e', [], {execArgv: ['-e', "
        "'process.send(1)'], env: {}}); k.on('message', (m) => console.log('from the child', m)); "
        "require('os').networkInterfaces(); })",
    ],
    "gcc": [
        "/bin/sh", "-c", "echo 'int main(void){return 0;}' > /tmp/a.c && gcc -pthread -o /tmp/a /tmp/a.c && /tmp/a",
    ],
    "make": ["/bin/sh", "-c", "printf 'all: a b\\na b:\\n\\techo $@\\n' > /tmp/m && make -s -j4 -f /tmp/m"],
}  # fmt: skip


@pytest.mark.parametrize("name", EVERYDAY)
def test_what_builds_use_goes_on_working(sandbox: SandboxHarness, name: str) -> None:
    arguments = [find_python() if each == "PYTHON" else each for each in EVERYDAY[name]]
    found = shutil.which(arguments[0], path="/usr/local/bin:/usr/bin:/bin")
    if (
        found is None
        or (name == "gcc" and shutil.which("gcc") is None)
        or (name == "make" and not shutil.which("make"))
    ):
        pytest.skip(f"{name} is not installed")
    done = sandbox.run_arguments([found, *arguments[1:]])
    assert done.code == 0, done.output


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("sockets", [False, True])
def test_every_jump_stays_in_the_program_and_every_path_ends(machine: str, sockets: bool) -> None:
    program = seccomp.build_filter(unix_sockets=sockets, machine=machine)
    assert program is not None
    instructions = list(struct.iter_unpack("=HBBI", program))
    for place, (operation, if_true, if_false, _) in enumerate(instructions):
        if operation in {seccomp._IF_EQUAL, seccomp._IF_AT_LEAST}:
            assert place + 1 + max(if_true, if_false) < len(instructions)
    assert instructions[-1][0] == seccomp._RETURN
    assert len(instructions) < 4096


def simulate(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """What the kernel would answer, for architectures that are not this one."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *(*arguments, *[0] * (6 - len(arguments))))
    instructions, place, accumulator = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        operation, if_true, if_false, value = instructions[place]
        place += 1
        match operation:
            case seccomp._LOAD:
                accumulator = struct.unpack_from("=I", data, value)[0]
            case seccomp._AND:
                accumulator &= value
            case seccomp._IF_EQUAL:
                place += if_true if accumulator == value else if_false
            case seccomp._IF_AT_LEAST:
                place += if_true if accumulator >= value else if_false
            case _:
                return int(value)


def list_calls() -> Iterator[tuple[str, int, int, tuple[int, ...], int]]:
    refused, missing, allowed = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS, 0x7FFF0000
    for column, (machine, arch) in enumerate((("x86_64", 0xC000003E), ("aarch64", 0xC00000B7))):
        yield machine, arch, seccomp._SOCKET[column], (1, 1, 0), refused
        yield machine, arch, seccomp._SOCKET[column], (0xFFFFFFFF_00000001, 1, 0), refused
        yield machine, arch, seccomp._SOCKET[column], (2, 1, 0), allowed
        yield machine, arch, seccomp._SOCKET[column], (40, 1, 0), 0x50000 | errno.EAFNOSUPPORT
        yield machine, arch, seccomp._SOCKETPAIR[column], (1, 1, 0), allowed
        yield machine, arch, seccomp._SOCKETPAIR[column], (1, 0x80802, 0), refused
        yield machine, arch, seccomp._CLONE[column], (0x10000011,), refused
        yield machine, arch, seccomp._CLONE[column], (17,), allowed
        yield machine, arch, seccomp._IOCTL[column], (0, 0xFFFFFFFF_00005412), refused
        yield machine, arch, seccomp._IOCTL[column], (0, 0x5401), allowed
        yield machine, arch, 435, (), missing
        yield machine, 0x40000003, 1, (), refused
        yield machine, 0x40000028, 1, (), refused


@try_each(("machine", "arch", "number", "arguments", "outcome"), list(list_calls()))
def test_both_architectures_answer_alike(
    machine: str, arch: int, number: int, arguments: tuple[int, ...], outcome: int
) -> None:
    program = seccomp.build_filter(unix_sockets=False, machine=machine)
    assert program is not None
    assert simulate(program, arch, number, *arguments) == outcome


def test_an_unknown_architecture_has_no_filter() -> None:
    assert seccomp.build_filter(unix_sockets=False, machine="riscv64") is None


def test_the_filter_is_read_from_its_beginning_by_each_command(sandbox: SandboxHarness) -> None:
    with seccomp.open_filter(unix_sockets=False) as first, seccomp.open_filter(unix_sockets=False) as second:
        assert os.read(first[0], 1 << 16) == os.read(second[0], 1 << 16) == seccomp.build_filter(unix_sockets=False)
        with pytest.raises(OSError, match=r"Operation not permitted|Bad file"):
            os.write(first[0], b"x")
