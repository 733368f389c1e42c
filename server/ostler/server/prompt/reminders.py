"""What is new since the system prompt was made: it travels in the next user message, in a tag of ours.

What was sent once is never changed, because the prompt cache depends on it; so facts that change are told anew.
"""

from typing import Final

from ostler.protocol.session import Mode
from ostler.server.prompt.environment import Facts, printable

_OPEN: Final = "<ostler-note>"
_CLOSE: Final = "</ostler-note>"
_OURS: Final = (_OPEN, "<ostler-file ", "<ostler-folder ")

_MODES: Final[dict[Mode, str]] = {
    "default": "what is more than reading is asked about first",
    "acceptEdits": "file edits inside the working folders pass without a question, the rest is asked about",
    "plan": "look and plan only; whatever changes something is denied until the person has approved a plan",
    "auto": "a classifier decides about calls, and asks the person about risky ones",
    "dontAsk": "nobody is asked, and whatever would need a question is denied",
    "bypassPermissions": "calls run without a question, so take the care that nobody else takes",
}


def note(text: str) -> str:
    """Words of the daemon's own to the model, as they stand in a user message."""
    return f"{_OPEN}\n{text}\n{_CLOSE}"


INTERRUPTED: Final = note(
    "The turn before this was stopped before its end. Do not take it up again unless what follows asks for it."
)
"""Stands between what is left of a turn that did not end by itself and the next input."""
GO_ON: Final = note(
    "Your last message reached its length limit. Go on exactly where it stopped, without repeating anything."
)
CALL_CUT: Final = note(
    "Your last message reached its length limit in the middle of a tool call, which was not run. "
    "Do the same in smaller pieces."
)
NUDGE: Final = note("Give the answer by calling StructuredOutput: words alone do not reach the caller.")
RESUMED: Final = note("The daemon was restarted. Go on with what you were doing.")


def is_ours(text: str) -> bool:
    """Is it a text block that the daemon made, and no words of a person's?"""
    return text.startswith(_OURS)


def mode_words(mode: Mode) -> str:
    return f"{mode}: {_MODES[mode]}"


def changes(before: Facts, after: Facts) -> list[str]:
    """A note for each fact that is not what it was."""
    told: list[str] = []
    if after.date != before.date:
        told.append(f"The date is now {after.date}.")
    if after.folder != before.folder:
        told.append(f"Working directory: {printable(after.folder)}")
    if after.mode != before.mode:
        told.append(f"The permission mode is now {mode_words(after.mode)}.")
    told += _folders(before, after)
    told += _git(before, after)
    return [note(text) for text in told]


def _folders(before: Facts, after: Facts) -> list[str]:
    came = [printable(path) for path in after.directories if path not in before.directories]
    went = [printable(path) for path in before.directories if path not in after.directories]
    told = [f"You may now also work in: {', '.join(came)}"] if came else []
    return [*told, f"You may no longer work in: {', '.join(went)}"] if went else told


def _git(before: Facts, after: Facts) -> list[str]:
    if after.git_root != before.git_root:
        if after.git_root is None:
            return ["The working directory is no longer in a git repository."]
        return [
            f"The working directory is now in the git repository {printable(after.git_root)}, {after.branch_words}."
        ]
    return [f"The git repository is now {after.branch_words}."] if after.git_branch != before.git_branch else []
