"""What Write and Edit have in common: the checks before, the permission, and the write itself."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, Protocol, runtime_checkable

from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.files.editing import diagnostics, large_edit, notebook_create, read_state
from ostler.tools.files.editing.diagnostics import DiagnosticOutput
from ostler.tools.files.editing.diff import Hunk, hunks, snippet, unified
from ostler.tools.files.editing.git_diff import GitDiff, git_diff
from ostler.tools.fs import paths
from ostler.tools.fs.atomic_write import Replaced, save_over
from ostler.tools.fs.encoding import UTF_8, Encoding
from ostler.tools.fs.protected_paths import why_guarded
from ostler.tools.fs.text_file import MAX_FILE_BYTES, TextFile, TooLarge, Unreadable, digest_of, load
from ostler.tools.services import FileRead, OlderFile
from ostler.tools.threads import change_in_thread, read_in_thread
from ostler.tools.tool import (
    DEFAULT_MAX_RESULT_CHARS,
    Allow,
    AskFirst,
    Block,
    Check,
    Failure,
    FileChanged,
    Refuse,
    ToolOutput,
    text_block,
)

MAX_ORIGINAL_CHARS: Final = DEFAULT_MAX_RESULT_CHARS
"""Of a field more would be cut for clients: a file with its end cut off looks like one that ends there."""
_MAX_SHOWN: Final = 500
"""Characters of a path that a failure names: one that is too long would hide what is said about it."""


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
    told: large_edit.Told | None = None
    """Of a large file: what the process says that has its texts, which are not here."""

    @property
    def hunks(self) -> list[Hunk] | None:
        return self.told.hunks if self.told else hunks(self.before.text if self.before else "", self.text)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan that only has to be written down."""

    plan: Plan
    data: bytes
    hunks: list[Hunk] | None
    order: large_edit.Order | None = None
    """Of a large file: what its process is to do."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a call wrote."""

    plan: Plan
    hunks: list[Hunk] | None
    read: FileRead
    git_diff: GitDiff | None


class ChangeOutput(ToolOutput):
    """What became of a file."""

    kind: Literal["create", "update"]
    file_path: str
    structured_patch: list[Hunk] | None
    """Null where it is too long to show."""
    original: str | None
    """The content before; null for a new file, and where it is too long to show."""
    original_left_out: bool = False
    """There was a content before, of more than 50,000 characters: file history has it."""
    git_diff: GitDiff | None = None
    """The same change as git writes it; null outside of repositories."""
    user_modified: bool = False
    """A person changed the proposed text."""
    diagnostics: list[DiagnosticOutput] | None = None
    """What an editor says about the file now; null where none said anything in time."""


Planner = Callable[[str, FileRead | None], Plan | Failure]
"""Given the real path and what the session has read of it: blocking, on a thread."""


@runtime_checkable
class EditPlanner(Protocol):
    """One that another process can be told: for a file that is large."""

    @property
    def edit_input(self) -> dict[str, Any]: ...
    def __call__(self, place: str, read: FileRead | None, /) -> Plan | Failure: ...


def unusable(path: str) -> Failure | None:
    flaw = paths.malformed(path) or paths.too_long(path)
    if flaw is None and path.endswith("/"):
        return Failure(f"{path} ends with a slash, as folders do: give the path of a file.")
    return Failure(flaw, read_state.RELATIVE) if flaw is not None else None


def flawed(path: str) -> Failure | None:
    """The same for who leaves all notebooks alone."""
    if paths.malformed(path) is None and notebook_create.is_notebook(path, path):
        return notebook_create.why_not_edited(path, path)
    return unusable(path)


def is_unc(path: str) -> bool:
    """Whether it names another machine: `//host/share`. Such a path is not touched before somebody has allowed it."""
    return path.startswith("//") and not path.startswith("///")


def load_if_there(place: str) -> TextFile | None:
    try:
        return load(place)
    except FileNotFoundError:
        return None


def _planned(path: str, place: str, planner: Planner, read: FileRead | None) -> Plan | Failure:
    """What would be written now, or why not. Blocking."""
    try:
        return _unwritable_name(path, place) or _plan(place, planner, read)
    except (Unreadable, OSError) as error:
        return failure_of(path, error)


def _plan(place: str, planner: Planner, read: FileRead | None) -> Plan | Failure:
    order = _order(place, planner, read)
    if order is None:
        return planner(place, read)
    told = large_edit.ask(order)
    return told if isinstance(told, Failure) else _told_plan(place, told)


def _order(place: str, planner: Planner, read: FileRead | None) -> large_edit.Order | None:
    if isinstance(planner, EditPlanner) and large_edit.is_large(place):
        return large_edit.Order(planner.edit_input, place, read)
    return None


def _told_plan(place: str, told: large_edit.Told) -> Plan:
    before = TextFile("", UTF_8, told.status, told.digest)
    return Plan(place, before, "", told.first_line, told.old_string, told.new_string, told)


def _unwritable_name(path: str, place: str) -> Failure | None:
    """Through a link any name can be reached; what is done to a file has to be told in JSON."""
    if paths.printable(place) == place:
        return None
    return Failure(f"{path} leads to {paths.printable(place)}, whose name is not UTF-8. Give it another name first.")


async def flaw_of(path: str, planner: Planner, context: ToolContext) -> Failure | None:
    """What is wrong with a call as far as can be told without its permission."""
    if is_unc(path):
        return None
    place = await read_in_thread(paths.real, path)
    planned = await read_in_thread(_planned, path, place, planner, context.reads.get(place))
    return planned if isinstance(planned, Failure) else None


def failure_of(path: str, error: Exception) -> Failure:
    """What the model is told of it."""
    path = path[:_MAX_SHOWN]
    match error:
        case TooLarge():
            return Failure(str(error), read_state.TOO_LARGE)
        case Unreadable():
            return Failure(str(error))
        case Replaced():
            return Failure(f"Nothing was written: {error}", read_state.CHANGED)
        case OSError():
            return Failure(f"{path} cannot be written: {error.strerror}.")
        case _:
            raise error


async def permission(path: str, planner: Planner, context: ToolContext, approved: paths.Approved) -> Check:
    if is_unc(path):
        return AskFirst(f"Write to {path}?", reason="It is on another machine.", safety=True)
    place = await read_in_thread(paths.real, path)
    approved.note(context.call_id, place)
    return await read_in_thread(_permission, path, place, planner, context.reads.get(place), context.surroundings)


def _permission(path: str, place: str, planner: Planner, read: FileRead | None, surroundings: Surroundings) -> Check:
    if paths.of_the_daemon(place, surroundings):
        return Refuse(f"{path} is in the daemon's own folder.")
    guard = why_guarded(paths.written(path), place)
    inside = paths.inside_roots(place, surroundings)
    if guard is None and inside and surroundings.mode == "acceptEdits":
        return Allow()
    # A plan that fails by now may work again when it runs: it is asked for all the same.
    planned = _planned(path, place, planner, read)
    diff = unified(path, planned.hunks) if isinstance(planned, Plan) else None
    exists = isinstance(planned, Failure) or planned.before is not None
    leads = "" if place == paths.written(path) else f", which leads to {paths.printable(place)}"
    message = f"{'Change' if exists else 'Create'} {path}{leads}?"
    if guard is not None:
        return AskFirst(message, reason=f"This file is guarded: {guard}.", safety=True, diff=diff)
    return AskFirst(message, reason="" if inside else "It is outside the session's folders.", diff=diff)


async def write(path: str, planner: Planner, context: ToolContext, approved: paths.Approved) -> Written | Failure:
    """Plans again, since an ask may have been open for hours, and writes at once."""
    place = await read_in_thread(paths.real, path)
    if approved.moved(context.call_id, place):
        return Failure(
            f"{path} leads to another place than when it was allowed. Nothing was written.", read_state.CHANGED
        )
    read = context.reads.get(place)
    try:
        prepared = await read_in_thread(prepare, path, place, planner, read, context.surroundings)
        if isinstance(prepared, Failure):
            return prepared
        # It returns when the disk has it: from here on the old content cannot be lost.
        await context.history.keep(place, _older(prepared.plan.before))
        written = await change_in_thread(save, prepared, read, context.surroundings.umask)
    except (Unreadable, Replaced, OSError) as error:
        return failure_of(path, error)
    if isinstance(written, Written):
        context.reads.put(place, written.read)
    return written


def prepare(
    path: str, place: str, planner: Planner, read: FileRead | None, surroundings: Surroundings
) -> Prepared | Failure:
    """All but the writing. Blocks; raises Unreadable and OSError."""
    # Here too: a path of another machine was not looked at before, and may turn out to be none.
    if paths.of_the_daemon(place, surroundings):
        return Failure(f"{path} is in the daemon's own folder.", read_state.DENIED)
    planned = _unwritable_name(path, place) or _plan(place, planner, read)
    if isinstance(planned, Failure):
        return planned
    if planned.told is not None:
        return Prepared(planned, b"", planned.hunks, _order(place, planner, read))
    encoding = _encoding(planned)
    try:
        data = encoding.encode(planned.text)
    except UnicodeEncodeError as error:
        # By our name for it: some of Python's codecs call themselves `charmap`.
        letter = error.object[error.start]
        return Failure(f"{path} is written in {encoding.codec}, which has no {letter!r}. Nothing was written.")
    if len(data) > MAX_FILE_BYTES:
        return Failure("The content is more than 1 GiB.", read_state.TOO_LARGE)
    return Prepared(planned, data, planned.hunks)


def _encoding(planned: Plan) -> Encoding:
    return planned.before.encoding if planned.before else UTF_8


def _older(before: TextFile | None) -> OlderFile | None:
    if before is None:
        return None
    content = partial(before.encoding.encode, before.text)
    return OlderFile(before.status.st_mode, before.status.st_size, before.digest, content)


def save(prepared: Prepared, read: FileRead | None, umask: int) -> Written | Failure:
    """Blocks; raises Replaced and OSError."""
    if prepared.order is not None:
        return _saved_elsewhere(replace(prepared.order, umask=umask))
    planned, data = prepared.plan, prepared.data
    before = planned.before
    status = save_over(planned.place, data, umask, before.status if before else None)
    digest = digest_of(data)
    if planned.first_line is None:
        known = read_state.after_write(status, digest, planned.text)
    else:
        known = read_state.after_edit(read, status, digest, planned.text, planned.first_line)
    return Written(planned, prepared.hunks, known, _git_diff(prepared, status))


def _saved_elsewhere(order: large_edit.Order) -> Written | Failure:
    told = large_edit.ask(order)
    if isinstance(told, Failure):
        return told
    assert told.read is not None
    return Written(_told_plan(order.place, told), told.hunks, told.read, told.git_diff)


def _git_diff(prepared: Prepared, status: os.stat_result) -> GitDiff | None:
    # To git, whatever is in another encoding is bytes.
    if _encoding(prepared.plan) != UTF_8:
        return None
    return git_diff(prepared.plan.place, prepared.hunks, status.st_mode, added=prepared.plan.before is None)


async def output_of(path: str, written: Written, context: ToolContext) -> dict[str, Any]:
    """What the outputs have in common; waits a moment for what editors say about the change."""
    return {
        "kind": "update" if written.plan.before else "create",
        "file_path": path,
        "structured_patch": written.hunks,
        "original": original(written.plan),
        "original_left_out": written.plan.before is not None and original(written.plan) is None,
        "git_diff": written.git_diff,
        "user_modified": context.changed_by_person,
        "diagnostics": diagnostics.outputs(await context.diagnostics.after_change(path, written.plan.place)),
    }


def rendered(output: ChangeOutput) -> list[Block]:
    """What the model reads: which file, the changed places as they are now, and what there is to say about them."""
    told = f"File {'created' if output.kind == 'create' else 'updated'}: {output.file_path}"
    # Of a new file the model has just written every line.
    changed = snippet(output.structured_patch) if output.kind == "update" else ""
    told += f"\n{changed}" if changed else ""
    if output.user_modified:
        told += "\n(The person changed the text before it was written.)"
    return [text_block(told + diagnostics.rendered(output.diagnostics))]


def original(planned: Plan) -> str | None:
    if planned.before is None or planned.told is not None or len(planned.before.text) > MAX_ORIGINAL_CHARS:
        return None
    return planned.before.text


def change(path: str, written: Written) -> FileChanged:
    return FileChanged(written.plan.place, unified(path, written.hunks))
