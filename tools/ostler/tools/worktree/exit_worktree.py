"""ExitWorktree: leaves the worktree that the session made, and keeps or removes it."""

from typing import Literal

from pydantic import Field

from ostler.tools.context import ToolContext
from ostler.tools.services import LeftWorktree, WorktreeRefused
from ostler.tools.tool import (
    Allow,
    AskFirst,
    Block,
    Check,
    Failure,
    Tool,
    ToolInput,
    ToolOutput,
    ToolResult,
    text_block,
)
from ostler.tools.traits import PermissionTraits


class ExitWorktreeInput(ToolInput):
    """What becomes of the worktree."""

    action: Literal["keep", "remove"] = Field(description="Whether the worktree and its branch stay.")
    discard_changes: bool = Field(
        default=False,
        description="With `remove`: lose uncommitted files and unmerged commits. Only when the person agrees.",
    )


class ExitWorktreeOutput(ToolOutput):
    """Where the session is now, and what became of the worktree."""

    action: Literal["keep", "remove"]
    original_cwd: str
    worktree_path: str
    worktree_branch: str | None
    discarded_files: int = 0
    discarded_commits: int = 0
    tmux_session_name: str | None = None
    """Of a tmux session that was made for the worktree; the daemon makes none."""
    message: str


class ExitWorktree(Tool[ExitWorktreeInput, ExitWorktreeOutput]):
    """Leaves the session's worktree."""

    name = "ExitWorktree"
    Input = ExitWorktreeInput
    Output = ExitWorktreeOutput
    title = "Leaves the session's git worktree, and keeps or removes it"
    given_to_agents = "all"
    search_hint = "git leave return checkout keep remove discard"
    deferred = True
    interrupt = "block"
    permissions = PermissionTraits(text="action")

    def summary(self, given: ExitWorktreeInput) -> str:
        if given.action == "keep":
            return "Leave the worktree, and keep it"
        return f"Remove the worktree{' with its changes' if given.discard_changes else ''}"

    def is_destructive(self, given: ExitWorktreeInput) -> bool:
        return given.action == "remove" and given.discard_changes

    def classifier_text(self, given: ExitWorktreeInput) -> str:
        return "Remove the git worktree with all uncommitted files and commits" if self.is_destructive(given) else ""

    async def check_permission(self, given: ExitWorktreeInput, context: ToolContext) -> Check:
        if self.is_destructive(given):
            return AskFirst(
                "Remove the worktree with all that is not committed or not merged?", "It may lose work for good."
            )
        # It goes back to the folders that the person chose, and removes nothing but an unchanged copy.
        return Allow(own_state=True)

    async def run(self, given: ExitWorktreeInput, context: ToolContext) -> ToolResult[ExitWorktreeOutput] | Failure:
        try:
            left = await context.services.worktrees.leave(
                remove=given.action == "remove", discard=given.discard_changes
            )
        except WorktreeRefused as refused:
            return Failure(str(refused))
        return ToolResult(
            ExitWorktreeOutput(
                action=given.action,
                original_cwd=left.folder,
                worktree_path=left.path,
                worktree_branch=left.branch,
                discarded_files=len(left.discarded_files),
                discarded_commits=len(left.discarded_commits),
                message=_describe(left),
            )
        )

    def render(self, output: ExitWorktreeOutput) -> list[Block]:
        return [text_block(output.message)]


def _describe(left: LeftWorktree) -> str:
    parts = [f"The session is back in {left.folder}."]
    if left.note:
        parts.append(left.note)
    elif left.removed:
        parts.append(f"The worktree {left.path} was removed.")
    else:
        on = f" on the branch {left.branch}" if left.branch is not None else ""
        parts.append(f"The worktree {left.path}{on} was kept.")
    counts = ((len(left.discarded_files), "uncommitted file"), (len(left.discarded_commits), "commit"))
    lost = [f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts if count]
    if lost:
        parts.append(f"Discarded: {' and '.join(lost)}.")
    return " ".join(parts)
