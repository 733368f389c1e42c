"""EnterPlanMode: the session only looks from now on, until a person has approved a plan."""

from typing import ClassVar

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.tool import (
    Allow,
    Block,
    Check,
    Failure,
    PlanBegun,
    Tool,
    ToolInput,
    ToolOutput,
    ToolResult,
    text_block,
)


class EnterPlanModeInput(ToolInput):
    """Nothing."""


class EnterPlanModeOutput(ToolOutput):
    message: str
    """What holds from now on."""


class EnterPlanMode(Tool[EnterPlanModeInput, EnterPlanModeOutput]):
    name = "EnterPlanMode"
    title = "Begins to plan, and changes nothing until a plan is approved"
    given_to_agents = "none"
    search_hint = "design approach before changes"
    deferred = True
    Input: ClassVar[type[ToolInput]] = EnterPlanModeInput
    Output: ClassVar[type[ToolOutput]] = EnterPlanModeOutput
    only_reads = True

    def is_enabled(self, session: SessionView) -> bool:
        return session.plan_file is not None

    def is_concurrency_safe(self, given: EnterPlanModeInput) -> bool:
        return True

    async def validate(self, given: EnterPlanModeInput, context: ToolContext) -> Failure | None:
        if context.session.mode == "plan":
            return Failure(f"The session is in plan mode already. {_describe_way_out(context.session)}")
        if context.session.asks_nobody:
            return Failure("Nobody is asked anything in this turn, and so nobody could approve a plan. Go on without.")
        if context.session.mode == "dontAsk":
            return Failure("The mode dontAsk lets nobody be asked, and so nobody could approve a plan. Go on without.")
        return None

    async def check_permission(self, given: EnterPlanModeInput, context: ToolContext) -> Check:
        return Allow(own_state=True)

    async def run(self, given: EnterPlanModeInput, context: ToolContext) -> ToolResult[EnterPlanModeOutput] | Failure:
        message = f"The session is in plan mode now: look, and change nothing. {_describe_way_out(context.session)}"
        return ToolResult(EnterPlanModeOutput(message=message), changes=[PlanBegun()])

    def render(self, output: EnterPlanModeOutput) -> list[Block]:
        return [text_block(output.message)]

    def summary(self, given: EnterPlanModeInput) -> str:
        return "Begin to plan"


def _describe_way_out(session: SessionView) -> str:
    return f"Write the plan to {session.plan_file}, and call ExitPlanMode when it is ready to be approved."
