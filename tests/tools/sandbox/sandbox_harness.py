"""A project with folders around it, and a way to run the same attempt inside and outside the sandbox."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ostler.tools.sandbox import (
    Profile,
    confine_environment,
    hold_workspace,
    open_filter,
    probe_sandbox,
    release_placeholders,
    wrap,
)
from ostler.tools.tool_config import Support
from tests.support.disks import spread_folders

NOBODY = 65534
GOT_IT = "GOT IT"
BEGAN = "it began"


@cache
def get_support() -> Support:
    return probe_sandbox()


def require_sandbox() -> Support:
    if not get_support().works:
        pytest.skip(f"the sandbox does not work here: {get_support().reason}")
    return get_support()


def find_python() -> str:
    """A python that every user may start."""
    found = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    if found is None:
        pytest.skip("there is no python3 that a plain user could start")
    return found


def build_user_change(user: int | None) -> list[str]:
    """The beginning of a command line that is run as another user, without groups.

    Not with `user=` of subprocess, which has to fork for it: that copies the tables of a large process each time.
    """
    if user is None:
        return []
    return ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int
    output: str


@dataclass(frozen=True, slots=True)
class SandboxHarness:
    """Runs commands in the sandbox of a project and outside it.

    `project` is the only root; `outside` is open to everybody, `daemon` is hidden, `home` is the person's.
    """

    place: Path
    user: int | None

    @property
    def is_root(self) -> bool:
        return os.getuid() == 0 and self.user is None

    @property
    def project(self) -> Path:
        return self.place / "project"

    @property
    def outside_folder(self) -> Path:
        return self.place / "outside"

    @property
    def daemon(self) -> Path:
        return self.place / "daemon"

    @property
    def home(self) -> Path:
        return self.place / "home"

    def build_profile(self, kind: Any = "workspace", **changes: Any) -> Profile:
        usual = Profile(
            kind=kind,
            roots=(str(self.project),),
            folder=str(self.project),
            hidden=(str(self.daemon),),
            home=str(self.home),
        )
        return replace(usual, **changes)

    def put_file(self, path: str, text: str = "text\n", mode: int = 0o644) -> Path:
        """Writes a file below `place`, with its folders, owned by the user that runs commands."""
        file = self.place / path
        for folder in reversed([file.parent, *file.parent.parents]):
            if self.place in folder.parents and not folder.exists():
                folder.mkdir()
                self.set_owner(folder)
        file.write_text(text)
        file.chmod(mode)
        self.set_owner(file)
        return file

    def set_owner(self, path: Path) -> None:
        if self.user is not None:
            os.chown(path, self.user, self.user)

    def run(self, script: str, profile: Profile | None = None, **changes: Any) -> CommandResult:
        """Runs a script in the sandbox."""
        return self.run_arguments(["/bin/bash", "--noprofile", "--norc", "-c", script], profile, **changes)

    def run_arguments(
        self,
        arguments: list[str],
        profile: Profile | None = None,
        *,
        without: tuple[str, ...] = (),
        filtered: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> CommandResult:
        given = confine_environment(self.build_variables()) if environment is None else environment
        with self.wrap_arguments(arguments, profile, filtered=filtered) as wrapped:
            return self.run_process(_drop_flags(wrapped, without), given)

    @contextlib.contextmanager
    def wrap_arguments(
        self, arguments: list[str], profile: Profile | None = None, *, filtered: bool = True
    ) -> Iterator[list[str]]:
        """`filtered`: with the seccomp filter; without it, whatever starts it need not pass a descriptor on."""
        profile, support = profile or self.build_profile(), require_sandbox()
        profile, held = hold_workspace(profile)
        try:
            with open_filter(profile, support) as inherited:
                number = inherited[0] if inherited and filtered else None
                yield wrap(arguments, profile, support, filter_descriptor=number)
        finally:
            release_placeholders(held)

    def run_outside(self, script: str) -> CommandResult:
        """Runs a script as the same user, without the sandbox."""
        return self.run_process(["/bin/bash", "--noprofile", "--norc", "-c", script], self.build_variables())

    def build_variables(self) -> dict[str, str]:
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.home)}

    def run_process(
        self, arguments: list[str], environment: Mapping[str, str], output: int = subprocess.PIPE
    ) -> CommandResult:
        done = subprocess.run(
            [*build_user_change(self.user), *arguments],
            env=environment,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
            pass_fds=_find_filter_descriptor(arguments),
        )
        return CommandResult(done.returncode, (done.stdout or b"").decode("utf-8", "replace"))


def _find_filter_descriptor(arguments: list[str]) -> tuple[int, ...]:
    return (int(arguments[arguments.index("--seccomp") + 1]),) if "--seccomp" in arguments else ()


def _drop_flags(arguments: list[str], dropped: tuple[str, ...]) -> list[str]:
    """Drops one flag and its value: a sandbox with a hole."""
    size = len(dropped)
    for place in range(len(arguments) - size) if size else ():
        if tuple(arguments[place : place + size]) == dropped:
            return arguments[:place] + arguments[place + size :]
    assert not dropped, f"{dropped} is not among the flags"
    return arguments


def assert_refused(
    sandbox: SandboxHarness, attempt: str, profile: Profile | None = None, *, works_outside: bool = True
) -> CommandResult:
    """Asserts that an attempt, which prints GOT IT if it succeeds, fails inside and works outside."""
    inside = sandbox.run(f"echo {BEGAN}; {attempt}", profile)
    assert BEGAN in inside.output, inside.output
    assert GOT_IT not in inside.output, inside.output
    if works_outside:
        outside = sandbox.run_outside(attempt)
        assert GOT_IT in outside.output, outside.output
    return inside


def make_harness(user: int | None) -> SandboxHarness:
    # Not below /tmp: that is covered as a whole, and nothing would be shown by what is missing there.
    boxes = Path(f"/var/tmp/ostler-boxes-{os.getuid()}")
    boxes.mkdir(mode=0o755, exist_ok=True)
    # Each command in a sandbox makes and removes a folder for every protected name.
    spread_folders(boxes)
    place = Path(tempfile.mkdtemp(dir=boxes)).resolve()
    place.chmod(0o755)
    sandbox = SandboxHarness(place, user)
    sandbox.set_owner(place)
    for folder in (
        sandbox.project,
        sandbox.outside_folder,
        sandbox.daemon,
        sandbox.home,
    ):
        folder.mkdir(mode=0o755)
        sandbox.set_owner(folder)
    return sandbox
