"""ExitPlanMode: shows the plan to the people, who approve it, change it, or send it back with words."""

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from ostler.tools.context import PlanApproval, SessionView, ToolContext
from ostler.tools.permissions.plan_file import BadPlanFile, find_plan_problem, load_plan, store_plan
from ostler.tools.threads import change_in_thread, read_in_thread
from ostler.tools.tool import (
    AskPeople,
    Block,
    Check,
    Failure,
    PlanApproved,
    PlanProposal,
    Refuse,
    Tool,
    ToolInput,
    ToolOutput,
    ToolResult,
    text_block,
)
from ostler.tools.traits import PermissionTraits


class ApprovedCommands(ToolInput):
    tool: Literal["Bash"]
    prompt: str = Field(min_length=1, max_length=200, description="What the commands do, as `run tests`.")


class ExitPlanModeInput(ToolInput):
    # Clients and older models add fields of their own, which are kept and not looked at.
    model_config = ConfigDict(extra="allow")

    allowed_prompts: Annotated[
        list[ApprovedCommands] | None,
        Field(None, alias="allowedPrompts", max_length=20, description="Commands that it needs, by what they do."),
    ]
    plan: str | None = Field(None, description="The plan, where it is not in the plan file already.")
    plan_file_path: Annotated[str | None, Field(None, alias="planFilePath", description="Not needed.")]


class ExitPlanModeOutput(ToolOutput):
    plan: str
    """The plan that was approved."""
    is_agent: bool = False
    """Whether it is an agent's plan."""
    file_path: str
    """The file that holds it."""
    plan_was_edited: bool
    """Whether a person changed it before they approved it."""
    allowed_prompts: list[str] = Field(default_factory=list)
    """What was allowed along with it, as `Bash(prompt: run tests)`."""
    awaiting_leader_approval: bool = False
    """Whether it went to a team's leader, who has not answered yet."""
    request_id: str | None = None
    """Under which id it went there."""


class ExitPlanMode(Tool[ExitPlanModeInput, ExitPlanModeOutput]):
    name = "ExitPlanMode"
    title = "Shows the plan to a person, to be approved"
    given_to_agents = "none"
    search_hint = "approve plan ready start"
    deferred = True
    permissions = PermissionTraits(requires_user=True)
    Input: ClassVar[type[ToolInput]] = ExitPlanModeInput
    Output: ClassVar[type[ToolOutput]] = ExitPlanModeOutput
    max_result_chars = None

    def is_enabled(self, session: SessionView) -> bool:
        return session.plan_file is not None

    async def validate(self, given: ExitPlanModeInput, context: ToolContext) -> Failure | None:
        path = context.session.plan_file
        if context.session.mode != "plan" or path is None:
            return Failure("The session is not in plan mode, so there is no plan to approve. Go on with the work.")
        if given.plan is not None:
            problem = find_plan_problem(given.plan.encode("utf-8", "replace"))
            return Failure(problem) if problem else None
        try:
            await read_in_thread(load_plan, path)
        except BadPlanFile as error:
            return Failure(str(error))
        return None

    async def check_permission(self, given: ExitPlanModeInput, context: ToolContext) -> Check:
        path = context.session.plan_file
        if path is None:
            return Refuse("Plans are not made in this session.")
        try:
            if given.plan is not None:
                await change_in_thread(store_plan, path, given.plan)
            plan = await read_in_thread(load_plan, path)
        except (BadPlanFile, OSError) as error:
            return Refuse(f"The plan cannot be shown: {error}")
        prompts = tuple(each.model_dump(mode="json") for each in given.allowed_prompts or ())
        return AskPeople(
            "Go ahead with this plan?",
            PlanProposal(plan, path, prompts),
            "Only a person can approve a plan: end the turn with the plan as your answer.",
        )

    async def run(self, given: ExitPlanModeInput, context: ToolContext) -> ToolResult[ExitPlanModeOutput] | Failure:
        answer, path = context.answer, context.session.plan_file
        if not isinstance(answer, PlanApproval) or path is None:
            return Failure("Nobody has approved the plan.")
        if answer.edited:
            await change_in_thread(store_plan, path, answer.plan)
        granted = tuple(each.prompt for each in given.allowed_prompts or ())
        output = ExitPlanModeOutput(
            plan=answer.plan,
            file_path=path,
            plan_was_edited=answer.edited,
            allowed_prompts=[f"Bash(prompt: {prompt})" for prompt in granted],
        )
        return ToolResult(output, changes=[PlanApproved(answer.mode, granted)])

    def render(self, output: ExitPlanModeOutput) -> list[Block]:
        lines = ["The person approved the plan. Begin with the work, and keep to the plan."]
        if output.plan_was_edited:
            lines = [
                "The person changed the plan and approved it. What counts is this, and not what you wrote:",
                "",
                output.plan,
            ]
        if output.allowed_prompts:
            lines += ["", f"Approved along with it: {', '.join(output.allowed_prompts)}."]
        return [text_block("\n".join(lines))]

    def summary(self, given: ExitPlanModeInput) -> str:
        return "Show the plan"
