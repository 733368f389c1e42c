"""Skill: instructions that are kept in files for a kind of work, taken up when that work comes."""

from typing import Any, Literal

from pydantic import Field

from ostler.protocol.ids import SessionId, TaskId
from ostler.tools.agents.agent import DEFAULT_KIND
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.services import AgentLaunched, AgentRefused, AgentRequest, OpenedSkill, SkillInfo, SkillRefused
from ostler.tools.spelling import find_close
from ostler.tools.text import one_line
from ostler.tools.tool import Allow, Block, Check, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block
from ostler.tools.traits import PermissionTraits

_MAX_ARGS = 100_000


class SkillInput(ToolInput):
    """Which one, and what it is about."""

    skill: str = Field(min_length=1, max_length=400, description="Its name.")
    args: str | None = Field(None, max_length=_MAX_ARGS, description="What it is about.")


class SkillOutput(ToolOutput):
    """What was taken up."""

    skill: str
    path: str
    """Its file."""
    status: Literal["inline", "completed", "failed", "interrupted", "async_launched"]
    """`inline`: its text has become part of the conversation. Else how the agent has ended that worked on it."""
    allowed_tools: list[str]
    """What is allowed for the rest of the turn."""
    model: str | None = None
    agent_id: SessionId | None = None
    task_id: TaskId | None = None
    result: str | None = None
    """What the agent reports."""
    error: str | None = None


class Skill(Tool[SkillInput, SkillOutput]):
    """Takes up a skill."""

    name = "Skill"
    aliases = ("SlashCommand",)
    Input = SkillInput
    Output = SkillOutput
    title = "Takes up a skill"
    search_hint = "slash command instructions workflow playbook"
    given_to_agents = "all"
    takes_up_skills = True
    max_result_chars = 100_000
    permissions = PermissionTraits(
        text=lambda given: f"{_get_name(given)} {given.args or ''}".strip(), paths=lambda given: ()
    )

    def description(self, session: SessionView) -> str:
        return super().description(session).replace("{skills}", session.skill_list or "(There are none yet.)")

    def called_as(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """SlashCommand has one text: `/name arguments`."""
        command = given.get("command")
        if not isinstance(command, str):
            return given
        skill, _, args = command.strip().removeprefix("/").partition(" ")
        rest = {key: value for key, value in given.items() if key != "command"}
        return {**rest, "skill": skill, **({"args": args.strip()} if args.strip() else {})}

    def summary(self, given: SkillInput) -> str:
        return f"Skill {one_line(given.skill, 100)} {one_line(given.args or '', 100)}".rstrip()

    async def validate(self, given: SkillInput, context: ToolContext) -> Failure | None:
        skills = context.services.skills
        found = skills.find(_get_name(given))
        if found is None:
            names = [each.name for each in skills.list_skills() if each.by_model]
            close = find_close(given.skill, names, 3)
            known = ", ".join(names[:50]) or "none"
            hint = f"Did you mean {' or '.join(close)}?" if close else f"The skills are: {known}."
            return Failure(f"There is no skill {given.skill[:100]!r}. {hint}")
        if not found.by_model and not skills.was_asked_for(found.name):
            return Failure(f"Only a person takes up the skill {found.name}: they type /{found.name}.")
        return None

    async def check_permission(self, given: SkillInput, context: ToolContext) -> Check:
        return Allow(own_state=True)

    async def run(self, given: SkillInput, context: ToolContext) -> ToolResult[SkillOutput] | Failure:
        skills = context.services.skills
        try:
            opened = await skills.open(_get_name(given), given.args or "")
        except SkillRefused as refused:
            return Failure(str(refused))
        info = opened.info
        if info.context == "fork" and context.session.agent_kinds:
            return await _run_as_agent(opened, given, context)
        skills.take_up(info)
        output = SkillOutput(
            skill=info.name, path=info.path, status="inline", allowed_tools=list(info.allowed), model=info.model
        )
        return ToolResult(output, messages=[[text_block(opened.text)]])

    def render(self, output: SkillOutput) -> list[Block]:
        match output.status:
            case "inline":
                return [text_block(f"The skill {output.skill} follows the results of this message.")]
            case "completed":
                return [text_block(f"{output.result}\n\n(skill {output.skill}, agent {output.agent_id})")]
            case "async_launched":
                return [text_block(f"An agent works on {output.skill} in the background, as {output.task_id}.")]
            case _:
                so_far = f"\nWhat it has so far:\n{output.result}" if (output.result or "").strip() else ""
                return [text_block(f"The agent that worked on {output.skill} did not complete: {output.error}{so_far}")]


async def _run_as_agent(
    opened: OpenedSkill, given: SkillInput, context: ToolContext
) -> ToolResult[SkillOutput] | Failure:
    info = opened.info
    request = AgentRequest(
        description=one_line(info.description, 100) or info.name,
        prompt=opened.text,
        kind=info.agent or DEFAULT_KIND,
        name=info.name[:64],
        model=info.model,
        skill=info.name,
    )
    if request.kind not in {kind.name for kind in context.session.agent_kinds}:
        return Failure(f"The skill {info.name} wants an agent of the kind {request.kind!r}, and there is none.")
    try:
        outcome = await context.services.agents.run(request, lambda progress: None)
    except AgentRefused as refused:
        return Failure(str(refused))
    told = {"skill": info.name, "path": info.path, "allowed_tools": list(info.allowed), "model": info.model}
    if isinstance(outcome, AgentLaunched):
        return ToolResult(
            SkillOutput(**told, status="async_launched", agent_id=outcome.agent_id, task_id=outcome.task_id)
        )
    output = SkillOutput(
        **told, status=outcome.status, agent_id=outcome.agent_id, result=outcome.result, error=outcome.error
    )
    return ToolResult(output, is_error=outcome.status != "completed")


def _get_name(given: SkillInput) -> str:
    return given.skill.strip().removeprefix("/")


def describe_skills(skills: list[SkillInfo], most_chars: int) -> str:
    """The list for the model, a line each: all names before any description, and long descriptions cut alike."""
    shown = [skill for skill in skills if skill.by_model]
    names = sum(len(skill.name) + 3 for skill in shown)
    if names > most_chars:
        return _list_names(shown, most_chars)
    share = (most_chars - names) // max(1, len(shown))
    short = sum(len(skill.description) for skill in shown if len(skill.description) <= share)
    long = [skill for skill in shown if len(skill.description) > share]
    # What the short ones leave over is for the long ones.
    each = max(0, (most_chars - names - short) // len(long)) if long else 0
    return "\n".join(_describe(skill, max(share, each)) for skill in shown)


def _list_names(skills: list[SkillInfo], most_chars: int) -> str:
    lines: list[str] = []
    chars = 0
    for skill in skills:
        chars += len(skill.name) + 3
        if chars > most_chars:
            return "\n".join([*lines, f"- and {len(skills) - len(lines)} more"])
        lines.append(f"- {skill.name}")
    return "\n".join(lines)


def _describe(skill: SkillInfo, most: int) -> str:
    text = one_line(skill.description, 2_000)
    shown = text if len(text) <= most else f"{text[: max(0, most - 1)].rstrip()}…" if most > 20 else ""
    return f"- {skill.name}: {shown}" if shown else f"- {skill.name}"
