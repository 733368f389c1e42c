"""How an agent ended, told from its turn as it is stored: the same now and after a restart."""

from typing import Final

from ostler.protocol.shapes import Turn
from ostler.server.worktrees.worktree import WorktreeOutcome
from ostler.tools.services import AgentOutcome, AgentStatus, AgentWorktree

_REASONS: Final = {
    "interrupted": "it was stopped before its end.",
    "max_requests": "it has made as many requests to the model as it may.",
    "budget": "the money that it may cost is used up.",
    "timeout": "its time was over.",
    "schema": "it did not give its answer in the form asked for.",
    "stopped_by_hook": "a hook stopped it.",
    "failed": "its turn failed.",
}


def build_outcome(turn: Turn, duration_ms: int, worktree: WorktreeOutcome | None = None) -> AgentOutcome:
    """The outcome of a turn that has ended."""
    result = turn.result_text or ""
    status: AgentStatus = "failed"
    error: str | None = None
    if turn.reason == "completed":
        # Where a call ended the turn, or a person's words did, there may be none of its own.
        status, error = ("completed", None) if result.strip() else ("failed", "it ended without a word.")
    else:
        status = "interrupted" if turn.reason == "interrupted" else "failed"
        words = (turn.error or {}).get("message")
        error = str(words) if words else _REASONS[turn.reason or "failed"]
    left = AgentWorktree(worktree.path, worktree.branch, worktree.kept, worktree.why) if worktree is not None else None
    return AgentOutcome(turn.session_id, status, result, error, turn.usage, turn.tool_calls, duration_ms, left)
