"""The seccomp filter of sandboxed commands: a program of the kernel's classic BPF, assembled here.

It refuses the system calls that no build needs and that lead out of a sandbox or deep into the kernel, and sockets that
reach programs outside. A refused call fails as if the kernel did not have it or the user lacked the power; nothing is
killed. Calls of another architecture (32-bit programs, x32) are refused as a whole, for their numbers mean other calls.

bwrap reads the program from a descriptor when it starts, and loads it last of all.
"""

import contextlib
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

FILTER_DESCRIPTOR: Final = 3
"""The number by which bwrap is given the filter where whoever starts it can open a path as any number."""


@dataclass(frozen=True, slots=True)
class _Architecture:
    audit: int
    """What the kernel calls it."""
    column: int
    """Its numbers in the table of calls."""


_ARCHITECTURES: Final = {"x86_64": _Architecture(0xC000003E, 0), "aarch64": _Architecture(0xC00000B7, 1)}
_X32_BIT: Final = 0x4000_0000

# Name, number on x86-64, on arm64; null where the architecture does not have it.
_REFUSED: Final[tuple[tuple[str, int | None, int | None], ...]] = (
    # Other processes.
    ("ptrace", 101, 117), ("process_vm_readv", 310, 270), ("process_vm_writev", 311, 271), ("kcmp", 312, 272),
    ("pidfd_getfd", 438, 438), ("migrate_pages", 256, 238), ("move_pages", 279, 239),
    # Keyrings, which no namespace separates.
    ("add_key", 248, 217), ("request_key", 249, 218), ("keyctl", 250, 219),
    # Code in the kernel, and its machinery.
    ("bpf", 321, 280), ("perf_event_open", 298, 241), ("userfaultfd", 323, 282), ("init_module", 175, 105),
    ("finit_module", 313, 273), ("delete_module", 176, 106), ("kexec_load", 246, 104), ("kexec_file_load", 320, 294),
    ("lookup_dcookie", 212, 18), ("fanotify_init", 300, 262), ("modify_ldt", 154, None), ("iopl", 172, None),
    ("ioperm", 173, None), ("uselib", 134, None), ("_sysctl", 156, None), ("sysfs", 139, None), ("ustat", 136, None),
    # Mounts and namespaces.
    ("mount", 165, 40), ("umount2", 166, 39), ("pivot_root", 155, 41), ("chroot", 161, 51), ("setns", 308, 268),
    ("open_tree", 428, 428), ("move_mount", 429, 429), ("fsopen", 430, 430), ("fsconfig", 431, 431),
    ("fsmount", 432, 432), ("fspick", 433, 433), ("mount_setattr", 442, 442), ("open_tree_attr", 467, 467),
    ("open_by_handle_at", 304, 265),
    # The machine as a whole.
    ("reboot", 169, 142), ("swapon", 167, 224), ("swapoff", 168, 225), ("quotactl", 179, 60), ("quotactl_fd", 443, 443),
    ("nfsservctl", 180, 42), ("acct", 163, 89), ("syslog", 103, 116), ("vhangup", 153, 58), ("settimeofday", 164, 170),
    ("clock_settime", 227, 112), ("sethostname", 170, 161), ("setdomainname", 171, 162),
)  # fmt: skip
# As if the kernel were older: libraries then take the older way, which can be checked.
_MISSING: Final = (
    ("io_uring_setup", 425, 425), ("io_uring_enter", 426, 426), ("io_uring_register", 427, 427), ("clone3", 435, 435),
)  # fmt: skip
_CLONE: Final = (56, 220)
_UNSHARE: Final = (272, 97)
_IOCTL: Final = (16, 29)
_PERSONALITY: Final = (135, 92)
_SOCKET: Final = (41, 198)
_SOCKETPAIR: Final = (53, 199)

_NAMESPACES: Final = 0x7E02_0000
_TIME_NAMESPACE: Final = 0x80  # in `clone` these bits are the signal
_TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which type into a terminal."""
_PERSONALITIES: Final = (0, 0x8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF)
"""Linux and its 32-bit name, with or without the old uname, and the question which one it is."""
_AF_UNIX: Final = 1
_AF_NETLINK: Final = 16
_INTERNET: Final = (2, 10)
_SOCKET_KIND: Final = 0xF  # without SOCK_NONBLOCK and SOCK_CLOEXEC
# Not of datagrams: such a socket may be connected to another address afterwards, and send to any.
_STAYING_KINDS: Final = (1, 5)

_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST = 0x15, 0x35
_ALLOWED: Final = 0x7FFF_0000
_FAILS_WITH: Final = 0x0005_0000


def build_filter(*, unix_sockets: bool, machine: str | None = None) -> bytes | None:
    """The program's bytes; null on an architecture whose calls we have no table of."""
    found = _ARCHITECTURES.get(machine or platform.machine())
    return _assemble(found, unix_sockets) if found is not None else None


def _assemble(architecture: _Architecture, unix_sockets: bool) -> bytes:
    column = architecture.column
    program = _Program()
    program.load(_ARCH)
    program.unless_equal(architecture.audit, _fail(errno.EPERM))
    program.load(_NUMBER)
    if column == 0:
        program.if_at_least(_X32_BIT, _fail(errno.ENOSYS))
    for table, code in ((_REFUSED, errno.EPERM), (_MISSING, errno.ENOSYS)):
        for _, *numbers in table:
            if (number := numbers[column]) is not None:
                program.if_equal(number, _fail(code))
    program.on_call(_CLONE[column], _refuse_flags(_NAMESPACES))
    program.on_call(_UNSHARE[column], _refuse_flags(_NAMESPACES | _TIME_NAMESPACE))
    program.on_call(_IOCTL[column], _refuse_commands())
    program.on_call(_PERSONALITY[column], _check_personality())
    program.on_call(_SOCKET[column], _check_socket(unix_sockets))
    program.on_call(_SOCKETPAIR[column], _check_pair(unix_sockets))
    program.end(_ALLOWED)
    return program.pack()


class _Program:
    """Instructions in order: operation, jump if true, jump if false, value."""

    def __init__(self) -> None:
        self._instructions: list[tuple[int, int, int, int]] = []

    def load(self, offset: int) -> None:
        self._add(_LOAD, offset)

    def load_argument(self, place: int) -> None:
        """Its lower half: the kernel takes these arguments as 32 bits."""
        self.load(_ARGUMENTS + 8 * place)

    def mask(self, bits: int) -> None:
        self._add(_AND, bits)

    def end(self, outcome: int) -> None:
        self._add(_RETURN, outcome)

    def if_equal(self, value: int, outcome: int) -> None:
        self._add(_IF_EQUAL, value, 0, 1)
        self.end(outcome)

    def unless_equal(self, value: int, outcome: int) -> None:
        self._add(_IF_EQUAL, value, 1, 0)
        self.end(outcome)

    def if_at_least(self, value: int, outcome: int) -> None:
        self._add(_IF_AT_LEAST, value, 0, 1)
        self.end(outcome)

    def on_call(self, number: int, check: "_Program") -> None:
        """For one call its own check, which ends with an outcome; others skip it."""
        size = len(check._instructions)
        assert size < 256, "a jump is one byte"
        self._add(_IF_EQUAL, number, 0, size)
        self._instructions += check._instructions

    def pack(self) -> bytes:
        return b"".join(struct.pack("=HBBI", *each) for each in self._instructions)

    def _add(self, operation: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        self._instructions.append((operation, if_true, if_false, value))


def _fail(code: int) -> int:
    return _FAILS_WITH | code


def _refuse_flags(bits: int) -> _Program:
    check = _Program()
    check.load_argument(0)
    check.mask(bits)
    check.unless_equal(0, _fail(errno.EPERM))
    check.end(_ALLOWED)
    return check


def _refuse_commands() -> _Program:
    check = _Program()
    check.load_argument(1)
    for command in _TERMINAL_INPUT:
        check.if_equal(command, _fail(errno.EPERM))
    check.end(_ALLOWED)
    return check


def _check_personality() -> _Program:
    check = _Program()
    check.load_argument(0)
    for value in _PERSONALITIES:
        check.if_equal(value, _ALLOWED)
    check.end(_fail(errno.EPERM))
    return check


def _check_socket(unix_sockets: bool) -> _Program:
    """By a list: AF_VSOCK reaches the machine around this one, and whatever comes next reaches something else."""
    check = _Program()
    check.load_argument(0)
    for family in _INTERNET:
        check.if_equal(family, _ALLOWED)
    check.if_equal(_AF_UNIX, _ALLOWED if unix_sockets else _fail(errno.EPERM))
    check.unless_equal(_AF_NETLINK, _fail(errno.EAFNOSUPPORT))
    # Of netlink only the question which addresses and routes there are.
    check.load_argument(2)
    check.unless_equal(0, _fail(errno.EPERM))
    check.end(_ALLOWED)
    return check


def _check_pair(unix_sockets: bool) -> _Program:
    check = _Program()
    check.load_argument(0)
    check.unless_equal(_AF_UNIX, _fail(errno.EAFNOSUPPORT))
    if not unix_sockets:
        check.load_argument(1)
        check.mask(_SOCKET_KIND)
        for kind in _STAYING_KINDS:
            check.if_equal(kind, _ALLOWED)
        check.end(_fail(errno.EPERM))
    check.end(_ALLOWED)
    return check


_LOWEST_DESCRIPTOR: Final = 64


@cache
def _keep_filter(unix_sockets: bool) -> int | None:
    """The descriptor of a sealed file in memory that holds the program, kept while this process lives."""
    program = build_filter(unix_sockets=unix_sockets)
    if program is None or not hasattr(os, "memfd_create"):
        return None
    made = os.memfd_create("ostler-seccomp", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(made, program)
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(made, fcntl.F_ADD_SEALS, seals)
        # Out of the way of the number by which a child opens it.
        return fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _LOWEST_DESCRIPTOR)
    finally:
        os.close(made)


def find_filter_path(*, unix_sockets: bool) -> str | None:
    """A path at which this process and one that it is just starting open the filter; null where there is none."""
    kept = _keep_filter(unix_sockets)
    return f"/proc/self/fd/{kept}" if kept is not None else None


@contextlib.contextmanager
def open_filter(*, unix_sockets: bool) -> Iterator[Sequence[int]]:
    """A descriptor of the filter to pass on, at its beginning; nothing where there is none."""
    path = find_filter_path(unix_sockets=unix_sockets)
    if path is None:
        yield ()
        return
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield (opened,)
    finally:
        os.close(opened)
