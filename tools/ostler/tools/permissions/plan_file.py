"""The plan file of a session: the one file of the daemon's own folder that tools may touch, while a plan is made."""

import os
import stat
from pathlib import Path
from typing import Final

from ostler.protocol.ids import SessionId
from ostler.tools.context import SessionView
from ostler.tools.fs.regular_file import NotRegular, open_regular_file

MAX_PLAN_BYTES: Final = 100_000
"""People read the whole of it."""


class BadPlanFile(Exception):
    """The file holds no plan that could be shown; the message is for the model."""


def build_plan_path(home: str, session_id: SessionId) -> str:
    """Where the plan of a session is written."""
    return os.path.join(home, "plans", f"{session_id}.md")


def is_plan_file(written: str, place: str, session: SessionView) -> bool:
    """Whether a path is exactly the plan file, spelt as the model was told it, while the session plans.

    `place` is its real path. A link, a second name or another spelling is none of it.
    """
    if session.mode != "plan" or session.plan_file is None or written != session.plan_file:
        return False
    home = session.real_home or os.path.realpath(session.home)
    if place != os.path.join(home, os.path.relpath(session.plan_file, session.home)):
        return False
    try:
        found = os.lstat(place)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def load_plan(path: str) -> str:
    """The plan that the file holds. Blocks; raises BadPlanFile."""
    try:
        descriptor = open_regular_file(path, follow=False)
    except FileNotFoundError:
        raise BadPlanFile(f"There is no plan yet. Write it to {path} first.") from None
    except NotRegular:
        raise BadPlanFile(f"The plan file {path} is no regular file.") from None
    except OSError as error:
        raise BadPlanFile(f"The plan file {path} cannot be read: {error.strerror}.") from None
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(MAX_PLAN_BYTES + 1)
        size = os.fstat(descriptor).st_size
    if problem := find_plan_problem(content, size):
        raise BadPlanFile(f"{problem} It is in {path}.")
    return content.decode("utf-8", "replace")


def find_plan_problem(content: bytes, size: int | None = None) -> str | None:
    """Why people cannot be shown this as a plan."""
    size = max(size or 0, len(content))
    if size > MAX_PLAN_BYTES:
        return f"The plan has {size:,} bytes, and {MAX_PLAN_BYTES:,} can be shown to a person. Make it shorter."
    return None if content.strip() else "The plan is empty. Write down what you would do."


def store_plan(path: str, text: str) -> None:
    """Replace the plan file at once. Blocks; raises OSError."""
    folder = Path(path).parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = folder / f".{Path(path).name}.new"
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode("utf-8", "replace"))
        file.flush()
        os.fsync(descriptor)
    os.replace(new, path)
