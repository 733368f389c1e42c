"""What Write, Edit and NotebookEdit share: the checks before, the permission, the write itself, and the output."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, Protocol, runtime_checkable

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.files.editing import diagnostics, large_edit, notebook_create, read_state
from ostler.tools.files.editing.diagnostics import DiagnosticOutput
from ostler.tools.files.editing.diff import Hunk, compute_hunks, format_unified, render_snippet
from ostler.tools.files.editing.git_diff import GitDiff, build_git_diff
from ostler.tools.fs import paths
from ostler.tools.fs.atomic_write import PathChanged, save_if_unchanged
from ostler.tools.fs.encoding import UTF_8, Encoding
from ostler.tools.fs.protected_paths import find_protection_reason
from ostler.tools.fs.text_file import MAX_FILE_BYTES, TextFile, TooLarge, Unreadable, hash_bytes, load
from ostler.tools.permissions.guards import GuardCheck
from ostler.tools.permissions.memory_notes import is_own_note, refuse_secret
from ostler.tools.permissions.plan_file import is_plan_file
from ostler.tools.sandbox import record_approved_write
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
"""A longer field would be cut for clients, and a file with its end cut off looks like one that ends there."""
_MAX_SHOWN: Final = 500
"""Characters of a path in a failure: a longer one would hide the message."""


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
    response: large_edit.EditResponse | None = None
    """For a large file: the response of its process; the texts themselves are not here."""

    @property
    def hunks(self) -> list[Hunk] | None:
        return (
            self.response.hunks if self.response else compute_hunks(self.before.text if self.before else "", self.text)
        )


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """A planned change with its bytes, ready to be written."""

    plan: Plan
    data: bytes
    hunks: list[Hunk] | None
    request: large_edit.EditRequest | None = None
    """For a large file: the request for its process."""


@dataclass(frozen=True, slots=True)
class CompletedChange:
    """A change that was written."""

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
"""Takes the real path and what the session has read of it. It blocks, and runs on a thread."""


@runtime_checkable
class SerializablePlanner(Protocol):
    """A planner whose input can be sent to another process, for a large file."""

    @property
    def edit_input(self) -> dict[str, Any]: ...
    def __call__(self, place: str, read: FileRead | None, /) -> Plan | Failure: ...


def check_path(path: str) -> Failure | None:
    problem = paths.check_form(path) or paths.check_length(path)
    if problem is None and path.endswith("/"):
        return Failure(f"{path} ends with a slash, as folders do: give the path of a file.")
    return Failure(problem, read_state.RELATIVE) if problem is not None else None


def check_text_path(path: str) -> Failure | None:
    """The same for a tool that does not change notebooks."""
    if paths.check_form(path) is None and notebook_create.is_notebook(path, path):
        return notebook_create.refuse_edit(path, path)
    return check_path(path)


def is_unc(path: str) -> bool:
    """Whether it names another machine: `//host/share`. Such a path is not touched before somebody has allowed it."""
    return path.startswith("//") and not path.startswith("///")


def load_if_there(place: str) -> TextFile | None:
    try:
        return load(place)
    except FileNotFoundError:
        return None


def _try_plan(path: str, place: str, planner: Planner, read: FileRead | None) -> Plan | Failure:
    """The plan as of now, or why there is none, also for errors of the file. Blocks."""
    try:
        return _check_name(path, place) or _plan(place, planner, read)
    except (Unreadable, OSError) as error:
        return build_failure(path, error)


def _plan(place: str, planner: Planner, read: FileRead | None) -> Plan | Failure:
    request = _build_request(place, planner, read)
    if request is None:
        return planner(place, read)
    response = large_edit.run_worker(request)
    return response if isinstance(response, Failure) else _plan_from_response(place, response)


def _build_request(place: str, planner: Planner, read: FileRead | None) -> large_edit.EditRequest | None:
    if isinstance(planner, SerializablePlanner) and large_edit.is_large(place):
        return large_edit.EditRequest(planner.edit_input, place, read)
    return None


def _plan_from_response(place: str, response: large_edit.EditResponse) -> Plan:
    before = TextFile("", UTF_8, response.status, response.digest)
    return Plan(place, before, "", response.first_line, response.old_string, response.new_string, response)


def _check_name(path: str, place: str) -> Failure | None:
    """Refuses a real path that is not UTF-8, as a link can lead to: a change of it could not be reported in JSON."""
    if paths.make_printable(place) == place:
        return None
    return Failure(
        f"{path} leads to {paths.make_printable(place)}, whose name is not UTF-8. Give it another name first."
    )


async def validate_change(path: str, planner: Planner, context: ToolContext) -> Failure | None:
    """Checks a call as far as is possible before it is permitted."""
    if is_unc(path):
        return None
    place = await read_in_thread(paths.resolve_path, path)
    planned = await read_in_thread(_try_plan, path, place, planner, context.services.files.reads.get(place))
    return planned if isinstance(planned, Failure) else None


def build_failure(path: str, error: Exception) -> Failure:
    """The failure that the model is shown for an exception."""
    path = path[:_MAX_SHOWN]
    match error:
        case TooLarge():
            return Failure(str(error), read_state.TOO_LARGE)
        case Unreadable():
            return Failure(str(error))
        case PathChanged():
            return Failure(f"Nothing was written: {error}", read_state.CHANGED)
        case OSError():
            return Failure(f"{path} cannot be written: {error.strerror}.")
        case _:
            raise error


async def check_permission(path: str, planner: Planner, context: ToolContext, approved: paths.ApprovedPaths) -> Check:
    if is_unc(path):
        return AskFirst(f"Write to {path}?", reason="It is on another machine.", safety=True)
    place = await read_in_thread(paths.resolve_path, path)
    approved.note(context.call_id, place)
    return await read_in_thread(
        _check_permission, path, place, planner, context.services.files.reads.get(place), context.session
    )


def _check_permission(path: str, place: str, planner: Planner, read: FileRead | None, session: SessionView) -> Check:
    if is_plan_file(path, place, session):
        return Allow(own_state=True)
    if is_own_note(place, session):
        return AskFirst(f"Write to your memory notes: {path}?", reason="Every later session reads them.", safety=True)
    if paths.is_in_daemon_home(place, session):
        return Refuse(f"{path} is in the daemon's own folder.")
    guard = GuardCheck(session).find_reason(paths.normalize_path(path), place)
    inside = paths.is_inside_roots(place, session)
    if guard is None and inside and session.mode == "acceptEdits":
        return Allow()
    # A plan that fails now may succeed when the call runs: the person is asked all the same.
    planned = _try_plan(path, place, planner, read)
    diff = format_unified(path, planned.hunks) if isinstance(planned, Plan) else None
    exists = isinstance(planned, Failure) or planned.before is not None
    leads = "" if place == paths.normalize_path(path) else f", which leads to {paths.make_printable(place)}"
    message = f"{'Change' if exists else 'Create'} {path}{leads}?"
    if guard is not None:
        return AskFirst(message, reason=f"This file is guarded: {guard}.", safety=True, diff=diff)
    return AskFirst(message, reason="" if inside else "It is outside the session's folders.", diff=diff)


async def write(
    path: str, planner: Planner, context: ToolContext, approved: paths.ApprovedPaths
) -> CompletedChange | Failure:
    """Plans again, since an ask may have been open for hours, and writes at once."""
    place = await read_in_thread(paths.resolve_path, path)
    if approved.has_moved(context.call_id, place):
        return Failure(
            f"{path} leads to another place than when it was allowed. Nothing was written.", read_state.CHANGED
        )
    read = context.services.files.reads.get(place)
    try:
        prepared = await read_in_thread(prepare, path, place, planner, read, context.session)
        if isinstance(prepared, Failure):
            return prepared
        # It returns when the disk has it: from here on the old content cannot be lost.
        await context.services.files.history.keep(place, _build_older_file(prepared.plan.before))
        written = await change_in_thread(save, prepared, read, context.session.config.umask)
    except (Unreadable, PathChanged, OSError) as error:
        return build_failure(path, error)
    if isinstance(written, CompletedChange):
        context.services.files.reads.put(place, written.read)
        if find_protection_reason(place):
            await read_in_thread(record_approved_write, place)
    return written


def prepare(
    path: str, place: str, planner: Planner, read: FileRead | None, session: SessionView
) -> PreparedChange | Failure:
    """Plans and encodes, all but the writing. Blocks; raises Unreadable and OSError."""
    # Here too: the path of another machine was not resolved before, and may turn out to be a local one.
    own = is_plan_file(path, place, session) or is_own_note(place, session)
    if paths.is_in_daemon_home(place, session) and not own:
        return Failure(f"{path} is in the daemon's own folder.", read_state.DENIED)
    planned = _check_name(path, place) or _plan(place, planner, read)
    if isinstance(planned, Failure):
        return planned
    if (refused := refuse_secret(place, planned.text)) is not None:
        return Failure(refused, read_state.DENIED)
    if planned.response is not None:
        return PreparedChange(planned, b"", planned.hunks, _build_request(place, planner, read))
    encoding = _choose_encoding(planned)
    try:
        data = encoding.encode(planned.text)
    except UnicodeEncodeError as error:
        # With our own name of the codec: some of Python's call themselves `charmap`.
        letter = error.object[error.start]
        return Failure(f"{path} is written in {encoding.codec}, which has no {letter!r}. Nothing was written.")
    if len(data) > MAX_FILE_BYTES:
        return Failure("The content is more than 1 GiB.", read_state.TOO_LARGE)
    return PreparedChange(planned, data, planned.hunks)


def _choose_encoding(planned: Plan) -> Encoding:
    return planned.before.encoding if planned.before else UTF_8


def _build_older_file(before: TextFile | None) -> OlderFile | None:
    if before is None:
        return None
    content = partial(before.encoding.encode, before.text)
    return OlderFile(before.status.st_mode, before.status.st_size, before.digest, content)


def save(prepared: PreparedChange, read: FileRead | None, umask: int) -> CompletedChange | Failure:
    """Writes a prepared change. Blocks; raises PathChanged and OSError."""
    if prepared.request is not None:
        return _save_in_worker(replace(prepared.request, umask=umask))
    planned, data = prepared.plan, prepared.data
    before = planned.before
    status = save_if_unchanged(planned.place, data, umask, before.status if before else None)
    digest = hash_bytes(data)
    if planned.first_line is None:
        known = read_state.build_after_write(status, digest, planned.text)
    else:
        known = read_state.build_after_edit(read, status, digest, planned.text, planned.first_line)
    return CompletedChange(planned, prepared.hunks, known, _build_git_diff(prepared, status))


def _save_in_worker(request: large_edit.EditRequest) -> CompletedChange | Failure:
    response = large_edit.run_worker(request)
    if isinstance(response, Failure):
        return response
    assert response.read is not None
    return CompletedChange(
        _plan_from_response(request.place, response), response.hunks, response.read, response.git_diff
    )


def _build_git_diff(prepared: PreparedChange, status: os.stat_result) -> GitDiff | None:
    # For git, text in another encoding is binary.
    if _choose_encoding(prepared.plan) != UTF_8:
        return None
    return build_git_diff(prepared.plan.place, prepared.hunks, status.st_mode, added=prepared.plan.before is None)


async def build_output_fields(path: str, written: CompletedChange, context: ToolContext) -> dict[str, Any]:
    """The fields that all outputs have; waits a moment for diagnostics of the change."""
    return {
        "kind": "update" if written.plan.before else "create",
        "file_path": path,
        "structured_patch": written.hunks,
        "original": get_original(written.plan),
        "original_left_out": written.plan.before is not None and get_original(written.plan) is None,
        "git_diff": written.git_diff,
        "user_modified": context.changed_by_person,
        "diagnostics": diagnostics.build_outputs(
            await context.services.files.diagnostics.collect(path, written.plan.place)
        ),
    }


def render_output(output: ChangeOutput) -> list[Block]:
    """Renders for the model: which file, the changed passages as they are now, and diagnostics."""
    text = f"File {'created' if output.kind == 'create' else 'updated'}: {output.file_path}"
    # Of a new file the model has just written every line.
    changed = render_snippet(output.structured_patch) if output.kind == "update" else ""
    text += f"\n{changed}" if changed else ""
    if output.user_modified:
        text += "\n(The person changed the text before it was written.)"
    return [text_block(text + diagnostics.render_diagnostics(output.diagnostics))]


def get_original(planned: Plan) -> str | None:
    if planned.before is None or planned.response is not None or len(planned.before.text) > MAX_ORIGINAL_CHARS:
        return None
    return planned.before.text


def describe_change(path: str, written: CompletedChange) -> FileChanged:
    return FileChanged(written.plan.place, format_unified(path, written.hunks))
