"""What Write and Edit have in common: the checks before, the permission, and the write itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ostler.tools import freshness, paths
from ostler.tools.atomic import Replaced, save
from ostler.tools.context import FileRead, Surroundings, ToolContext
from ostler.tools.guarded import why_guarded
from ostler.tools.patches import Hunk, hunks, unified
from ostler.tools.text_files import MAX_FILE_BYTES, UTF_8, Encoding, TextFile, TooLarge, Unreadable, digest_of, load
from ostler.tools.threads import change_in_thread, read_in_thread
from ostler.tools.tool import Allow, AskFirst, Check, Failure, FileChanged, Refuse, ToolOutput

MAX_ORIGINAL_CHARS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What a call is going to write."""

    place: str
    """The real path."""
    before: TextFile | None
    text: str
    first_line: int | None = None
    """The first line that differs; null where the call gave the whole text."""
    old_string: str = ""
    new_string: str = ""

    @property
    def hunks(self) -> list[Hunk] | None:
        return hunks(self.before.text if self.before else "", self.text)


@dataclass(frozen=True, slots=True)
class Written:
    """What a call wrote."""

    plan: Plan
    hunks: list[Hunk] | None
    read: FileRead


class ChangeOutput(ToolOutput):
    """What became of a file."""

    file_path: str
    structured_patch: list[Hunk] | None
    """Null where it is too long to show."""
    original: str | None
    """The content before; null for a new file, and where it is too long to show."""


Planner = Callable[[str, FileRead | None], Plan | Failure]
"""Given the real path and what the session has read of it: blocking, on a thread."""


def flawed(path: str) -> Failure | None:
    flaw = paths.flaw(path)
    if flaw is not None:
        return Failure(flaw, freshness.RELATIVE)
    if path.lower().endswith(".ipynb"):
        return Failure(f"{path} is a notebook: this tool does not write notebooks.", freshness.NOTEBOOK)
    return None


def load_if_there(place: str) -> TextFile | None:
    try:
        return load(place)
    except FileNotFoundError:
        return None


async def plan(path: str, planner: Planner, context: ToolContext) -> Plan | Failure:
    """What would be written now, or why not."""
    place = await read_in_thread(paths.real, path)
    read = context.reads.get(place)
    try:
        return await read_in_thread(planner, place, read)
    except TooLarge as error:
        return Failure(str(error), freshness.TOO_LARGE)
    except Unreadable as error:
        return Failure(str(error))
    except OSError as error:
        return Failure(f"{path} cannot be written: {error.strerror}.")


async def permission(path: str, planner: Planner, context: ToolContext, approved: paths.Approved) -> Check:
    planned = await plan(path, planner, context)
    place = planned.place if isinstance(planned, Plan) else await read_in_thread(paths.real, path)
    approved.note(context.call_id, place)
    return await read_in_thread(_permission, path, place, planned, context.surroundings)


def _permission(path: str, place: str, planned: Plan | Failure, surroundings: Surroundings) -> Check:
    if paths.of_the_daemon(place, surroundings):
        return Refuse(f"{path} is in the daemon's own folder.")
    # A plan that fails by now may work again when it runs: it is asked for all the same.
    diff = unified(path, planned.hunks) if isinstance(planned, Plan) else None
    exists = isinstance(planned, Failure) or planned.before is not None
    leads = "" if place == paths.written(path) else f", which leads to {place}"
    message = f"{'Change' if exists else 'Create'} {path}{leads}?"
    guard = why_guarded(paths.written(path), place)
    if guard is not None:
        return AskFirst(message, reason=f"This file is guarded: {guard}.", safety=True, diff=diff)
    inside = paths.inside_roots(place, surroundings)
    if inside and surroundings.mode == "acceptEdits":
        return Allow()
    return AskFirst(message, reason="" if inside else "It is outside the session's folders.", diff=diff)


async def write(path: str, planner: Planner, context: ToolContext, approved: paths.Approved) -> Written | Failure:
    """Plans again, since an ask may have been open for hours, and writes at once."""
    place = await read_in_thread(paths.real, path)
    if approved.moved(context.call_id, place):
        return Failure(
            f"{path} leads to another place than when it was allowed. Nothing was written.", freshness.CHANGED
        )
    read = context.reads.get(place)
    umask = context.surroundings.umask
    try:
        written = await change_in_thread(_write, planner, place, read, umask)
    except Unreadable as error:
        return Failure(str(error))
    except Replaced as error:
        return Failure(f"Nothing was written: {error}", freshness.CHANGED)
    except UnicodeEncodeError as error:
        letter = error.object[error.start]
        return Failure(f"{path} is written in {error.encoding}, which has no {letter!r}. Nothing was written.")
    except OSError as error:
        return Failure(f"{path} cannot be written: {error.strerror}.")
    if isinstance(written, Written):
        context.reads.put(place, written.read)
    return written


def _write(planner: Planner, place: str, read: FileRead | None, umask: int) -> Written | Failure:
    planned = planner(place, read)
    if isinstance(planned, Failure):
        return planned
    encoding: Encoding = planned.before.encoding if planned.before else UTF_8
    data = encoding.encode(planned.text)
    if len(data) > MAX_FILE_BYTES:
        return Failure("The content is more than 1 GiB.", freshness.TOO_LARGE)
    found = planned.hunks
    status = save(place, data, umask)
    digest = digest_of(data)
    if planned.first_line is None:
        return Written(planned, found, freshness.after_write(status, digest, planned.text))
    return Written(planned, found, freshness.after_edit(read, status, digest, planned.text, planned.first_line))


def original(planned: Plan) -> str | None:
    if planned.before is None or len(planned.before.text) > MAX_ORIGINAL_CHARS:
        return None
    return planned.before.text


def change(path: str, written: Written) -> FileChanged:
    return FileChanged(written.plan.place, unified(path, written.hunks))
