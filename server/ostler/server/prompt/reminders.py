"""Reminders: notes of the daemon in the next user message, in a tag of ours, as about facts that have changed.

A prompt that was sent once is never changed, because the prompt cache depends on it; so changes follow it as notes.
"""

from typing import Final

from ostler.protocol.session import Mode
from ostler.server.prompt.environment import EnvironmentFacts, to_printable

_OPEN: Final = "<ostler-note>"
_CLOSE: Final = "</ostler-note>"
_OWN_TAGS: Final = (
    _OPEN, "<ostler-summary>", "<ostler-file ", "<ostler-folder ", "<ostler-skill ", "<ostler-instructions ",
)  # fmt: skip

_MODE_TEXTS: Final[dict[Mode, str]] = {
    "default": "what is more than reading is asked about first",
    "acceptEdits": "file edits inside the working folders pass without a question, the rest is asked about",
    "plan": "look and plan only; whatever changes something is denied until the person has approved a plan",
    "auto": "a classifier decides about calls, and asks the person about risky ones",
    "dontAsk": "nobody is asked, and whatever would need a question is denied",
    "bypassPermissions": "calls run without a question, so take the care that nobody else takes",
}


def wrap_note(text: str) -> str:
    """Wraps a text of the daemon's own in the tag that marks it for the model in a user message."""
    return f"{_OPEN}\n{text}\n{_CLOSE}"


INTERRUPTED: Final = wrap_note(
    "The turn before this was stopped before its end. Do not take it up again unless what follows asks for it."
)
"""Stands between what is left of a turn that did not end by itself and the next input."""
GO_ON: Final = wrap_note(
    "Your last message reached its length limit. Go on exactly where it stopped, without repeating anything."
)
CALL_CUT: Final = wrap_note(
    "Your last message reached its length limit in the middle of a tool call, which was not run. "
    "Do the same in smaller pieces."
)


SUMMARY_WANTED: Final = "The window of this conversation is nearly full."
"""How a request for a summary begins."""


def ask_for_form(schema: str) -> str:
    """Asks for the answer of a turn in the form of a JSON Schema."""
    return wrap_note(
        f"Give the answer of this turn by calling StructuredOutput, as an object that fits this JSON Schema: {schema}"
    )


NUDGE: Final = wrap_note("Give the answer by calling StructuredOutput: words alone do not reach the caller.")
RESUMED: Final = wrap_note("The daemon was restarted. Go on with what you were doing.")


def is_ours(text: str) -> bool:
    """Whether a text block was made by the daemon, and not written by a person."""
    return text.startswith(_OWN_TAGS)


def describe_mode(facts: EnvironmentFacts) -> str:
    """The mode, what it means, and in plan mode where the plan goes."""
    text = f"{facts.mode}: {_MODE_TEXTS[facts.mode]}"
    if facts.plan_file is None:
        return text
    return (
        f"{text}. Write the plan to {to_printable(facts.plan_file)}, the one file that can be written now, "
        "and call ExitPlanMode when it is ready to be approved"
    )


def describe_changes(before: EnvironmentFacts, after: EnvironmentFacts) -> list[str]:
    """A note for each fact that is not what it was."""
    notes: list[str] = []
    if after.date != before.date:
        notes.append(f"The date is now {after.date}.")
    if after.folder != before.folder:
        notes.append(f"Working directory: {to_printable(after.folder)}")
    if after.mode != before.mode:
        notes.append(f"The permission mode is now {describe_mode(after)}.")
    notes += _describe_folders(before, after)
    notes += _describe_git(before, after)
    return [wrap_note(text) for text in notes]


def _describe_folders(before: EnvironmentFacts, after: EnvironmentFacts) -> list[str]:
    added = [to_printable(path) for path in after.directories if path not in before.directories]
    removed = [to_printable(path) for path in before.directories if path not in after.directories]
    lines = [f"You may now also work in: {', '.join(added)}"] if added else []
    return [*lines, f"You may no longer work in: {', '.join(removed)}"] if removed else lines


def _describe_git(before: EnvironmentFacts, after: EnvironmentFacts) -> list[str]:
    if after.git_root != before.git_root:
        if after.git_root is None:
            return ["The working directory is no longer in a git repository."]
        return [
            f"The working directory is now in the git repository {to_printable(after.git_root)}, {after.branch_words}."
        ]
    return [f"The git repository is now {after.branch_words}."] if after.git_branch != before.git_branch else []
