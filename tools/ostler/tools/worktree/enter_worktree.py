"""EnterWorktree: makes a git worktree, and moves the session there."""

from pydantic import Field

from ostler.tools import commands
from ostler.tools.context import ToolContext
from ostler.tools.services import WorktreeRefused
from ostler.tools.text import one_line
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import AskFirst, Block, Check, Failure, Pass, Tool, ToolInput, ToolOutput, ToolResult, text_block
from ostler.tools.traits import PermissionTraits

_QUESTION = "Make a git worktree, and move the session there?"


class EnterWorktreeInput(ToolInput):
    """Which name it gets."""

    name: str | None = Field(
        default=None,
        description="A name of segments of letters, digits, `.`, `_` and `-`, at most 64 characters. Default: random.",
    )


class EnterWorktreeOutput(ToolOutput):
    """Where the session is now."""

    worktree_path: str
    worktree_branch: str | None
    message: str


class EnterWorktree(Tool[EnterWorktreeInput, EnterWorktreeOutput]):
    """Makes a worktree and enters it."""

    name = "EnterWorktree"
    Input = EnterWorktreeInput
    Output = EnterWorktreeOutput
    title = "Makes a git worktree, and moves the session there"
    given_to_agents = "all"
    search_hint = "git isolated checkout branch separate copy parallel work"
    deferred = True
    interrupt = "block"
    permissions = PermissionTraits(text=lambda given: given.name or "")

    def summary(self, given: EnterWorktreeInput) -> str:
        return f"Enter worktree {one_line(given.name, 100)}" if given.name else "Enter a new worktree"

    def classifier_text(self, given: EnterWorktreeInput) -> str:
        return f"Make a git worktree of this repository, {given.name or 'with a random name'}, and work there"

    async def check_permission(self, given: EnterWorktreeInput, context: ToolContext) -> Check:
        problem = await read_in_thread(commands.find_git_config_problem, context.session.shell_folder)
        if problem is not None:
            return AskFirst(_QUESTION, f"git may run what the repository names while it checks out: {problem}.", True)
        return Pass()

    async def run(self, given: EnterWorktreeInput, context: ToolContext) -> ToolResult[EnterWorktreeOutput] | Failure:
        try:
            entered = await context.services.worktrees.enter(given.name)
        except WorktreeRefused as refused:
            return Failure(str(refused))
        on = f" on the branch {entered.branch}" if entered.branch is not None else ""
        return ToolResult(
            EnterWorktreeOutput(
                worktree_path=entered.path,
                worktree_branch=entered.branch,
                message=f"The session is now in the worktree {entered.path}{on}. ExitWorktree leads back.",
            )
        )

    def render(self, output: EnterWorktreeOutput) -> list[Block]:
        return [text_block(output.message)]
