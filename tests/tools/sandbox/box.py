"""A project with its surroundings, and a way to run the same attempt inside and outside the sandbox."""

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

from ostler.tools.sandbox import Profile, Support, confined, hold, probe_sandbox, release, wrap

NOBODY = 65534
GOT_IT = "GOT IT"
BEGAN = "it began"


@cache
def support() -> Support:
    return probe_sandbox()


def needs_the_sandbox() -> Support:
    if not support().works:
        pytest.skip(f"the sandbox does not work here: {support().reason}")
    return support()


def python() -> str:
    """One that everybody may start."""
    found = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    if found is None:
        pytest.skip("there is no python3 that a plain user could start")
    return found


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    output: str


@dataclass(frozen=True, slots=True)
class Box:
    """`project` is the only root; `outside` is anybody's, `daemon` is hidden, `home` the person's."""

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

    def profile(self, kind: Any = "workspace", **changes: Any) -> Profile:
        usual = Profile(
            kind=kind,
            roots=(str(self.project),),
            folder=str(self.project),
            hidden=(str(self.daemon),),
            home=str(self.home),
        )
        return replace(usual, **changes)

    def put(self, path: str, text: str = "text\n", mode: int = 0o644) -> Path:
        """A file below the place, with its folders, that belongs to whoever runs commands."""
        file = self.place / path
        for folder in reversed([file.parent, *file.parent.parents]):
            if self.place in folder.parents and not folder.exists():
                folder.mkdir()
                self.give(folder)
        file.write_text(text)
        file.chmod(mode)
        self.give(file)
        return file

    def give(self, path: Path) -> None:
        if self.user is not None:
            os.chown(path, self.user, self.user)

    def run(self, script: str, profile: Profile | None = None, **changes: Any) -> Done:
        """In the sandbox."""
        return self.run_arguments(["/bin/bash", "--noprofile", "--norc", "-c", script], profile, **changes)

    def run_arguments(
        self,
        arguments: list[str],
        profile: Profile | None = None,
        *,
        without: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        given = confined(self.variables()) if environment is None else environment
        with self.wrapped(arguments, profile) as wrapped:
            return self.start(_without(wrapped, without), given)

    @contextlib.contextmanager
    def wrapped(self, arguments: list[str], profile: Profile | None = None) -> Iterator[list[str]]:
        profile = profile or self.profile()
        held = hold(profile)
        try:
            yield wrap(arguments, profile, needs_the_sandbox())
        finally:
            release(held)

    def outside(self, script: str) -> Done:
        """The same user, and no sandbox."""
        return self.start(["/bin/bash", "--noprofile", "--norc", "-c", script], self.variables())

    def variables(self) -> dict[str, str]:
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.home)}

    def start(self, arguments: list[str], environment: Mapping[str, str], output: int = subprocess.PIPE) -> Done:
        done = subprocess.run(
            arguments,
            env=environment,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
        )
        return Done(done.returncode, (done.stdout or b"").decode("utf-8", "replace"))


def _without(arguments: list[str], dropped: tuple[str, ...]) -> list[str]:
    """A sandbox with a hole: without one flag and its value."""
    size = len(dropped)
    for place in range(len(arguments) - size) if size else ():
        if tuple(arguments[place : place + size]) == dropped:
            return arguments[:place] + arguments[place + size :]
    assert not dropped, f"{dropped} is not among the flags"
    return arguments


def refused(box: Box, attempt: str, profile: Profile | None = None, *, works_outside: bool = True) -> Done:
    """The attempt prints GOT IT where it succeeds: not inside, and outside where that can be shown."""
    inside = box.run(f"echo {BEGAN}; {attempt}", profile)
    assert BEGAN in inside.output, inside.output
    assert GOT_IT not in inside.output, inside.output
    if works_outside:
        outside = box.outside(attempt)
        assert GOT_IT in outside.output, outside.output
    return inside


def make_box(user: int | None) -> Box:
    # Not below /tmp: that is covered as a whole, and nothing would be shown by what is missing there.
    place = Path(tempfile.mkdtemp(prefix="ostler-box-", dir="/var/tmp")).resolve()
    place.chmod(0o755)
    box = Box(place, user)
    box.give(place)
    for folder in (box.project, box.outside_folder, box.daemon, box.home):
        folder.mkdir(mode=0o755)
        box.give(folder)
    return box
