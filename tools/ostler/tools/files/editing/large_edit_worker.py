"""What the process for edits of large files does: see `large_edit`."""

import os
from dataclasses import asdict
from typing import Any

from ostler.protocol.ids import SessionId
from ostler.tools.context import Surroundings
from ostler.tools.files.editing import mutation
from ostler.tools.files.editing.edit_plan import EditInput, EditPlanner
from ostler.tools.files.editing.large_edit import read_of
from ostler.tools.files.editing.mutation import Prepared, Written
from ostler.tools.fs.atomic_write import Replaced
from ostler.tools.fs.text_file import Unreadable
from ostler.tools.tool import Failure

Done = Prepared | Written | Failure


def answer(order: dict[str, Any]) -> dict[str, Any]:
    """Plan the edit, and carry it out where a mask says with which."""
    # Only suggestions for a file that is missing would look around, and this one is there.
    nowhere = Surroundings(SessionId(""), os.sep, os.sep, (), "default")
    given, place = EditInput.model_validate(order["given"]), order["place"]
    read = read_of(order["read"]) if order["read"] is not None else None
    # Its method alone: the planner itself would be sent to a process like this one.
    plan = EditPlanner(given, nowhere)
    try:
        prepared = mutation.prepare(given.file_path, place, plan.__call__, read, nowhere)
        done: Done = prepared
        if isinstance(prepared, Prepared) and order["umask"] is not None:
            done = mutation.save(prepared, read, order["umask"])
    except (Unreadable, Replaced, OSError) as error:
        done = mutation.failure_of(given.file_path, error)
    if isinstance(done, Failure):
        return {"failure": {"message": done.message, "code": done.code}}
    return _told(done)


def _told(done: Prepared | Written) -> dict[str, Any]:
    plan, hunks = done.plan, done.hunks
    read, git_diff = (done.read, done.git_diff) if isinstance(done, Written) else (None, None)
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
