"""The work of the process for edits of large files: see `large_edit`."""

import ctypes
import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Any, Final

from ostler.protocol.ids import SessionId
from ostler.tools.context import SessionView
from ostler.tools.files.editing import mutation
from ostler.tools.files.editing.edit_plan import EditInput, EditPlanner
from ostler.tools.files.editing.large_edit import parse_read
from ostler.tools.files.editing.mutation import CompletedChange, PreparedChange
from ostler.tools.fs.atomic_write import PathChanged
from ostler.tools.fs.text_file import Unreadable
from ostler.tools.tool import Failure

Outcome = PreparedChange | CompletedChange | Failure
_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Entry point of the process. It ends with its parent: a daemon that is restarted takes the file as it is."""
    _die_with_parent(int(sys.argv[1]))
    sys.stdout.write(json.dumps(handle_request(json.load(sys.stdin))))
    sys.stdout.flush()


def _die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when the thread that started it ends; that thread waits for it until then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()


def handle_request(request: dict[str, Any]) -> dict[str, Any]:
    """Plans the edit, and writes it where the request has a umask."""
    # An empty session view: only suggestions for a missing file would use it, and this file exists.
    session = SessionView(SessionId(""), os.sep, os.sep, (), "default")
    given, place = EditInput.model_validate(request["given"]), request["place"]
    read = parse_read(request["read"]) if request["read"] is not None else None
    # The bound method, not the planner: a SerializablePlanner would be sent to another process like this one.
    plan = EditPlanner(given, session)
    try:
        prepared = mutation.prepare(given.file_path, place, plan.__call__, read, session)
        done: Outcome = prepared
        if isinstance(prepared, PreparedChange) and request["umask"] is not None:
            done = mutation.save(prepared, read, request["umask"])
    except (Unreadable, PathChanged, OSError) as error:
        done = mutation.build_failure(given.file_path, error)
    if isinstance(done, Failure):
        return {"failure": {"message": done.message, "code": done.code}}
    return _build_response(done)


def _build_response(done: PreparedChange | CompletedChange) -> dict[str, Any]:
    plan, hunks = done.plan, done.hunks
    read, git_diff = (done.read, done.git_diff) if isinstance(done, CompletedChange) else (None, None)
    assert plan.before is not None
    return {
        "digest": plan.before.digest,
        "first_line": plan.first_line,
        "old_string": plan.old_string,
        "new_string": plan.new_string,
        "hunks": None if hunks is None else [each.model_dump() for each in hunks],
        "read": None if read is None else asdict(read),
        "git_diff": None if git_diff is None else git_diff.model_dump(),
    }
