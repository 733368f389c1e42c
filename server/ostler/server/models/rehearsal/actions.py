"""Turns the steps of a request into actions of the model: calls of tools, texts, thoughts and pauses."""

import os.path
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, assert_never

from ostler.server.models.rehearsal import speech
from ostler.server.models.rehearsal.steps import (
    Ask,
    Delegate,
    Fetch,
    Find,
    Introduce,
    Join,
    ListFiles,
    MakeList,
    PermissionTest,
    Plan,
    Read,
    Replace,
    RequestedStep,
    Run,
    Say,
    SearchWeb,
    Step,
    Think,
    Unclear,
    UseTool,
    Wait,
    Write,
)
from ostler.server.models.rehearsal.suggestions import suggest_requests

READ_ONLY_TOOLS: Final = frozenset({"Read", "Glob", "Grep", "WebFetch", "WebSearch"})
"""Tools that change nothing: their calls may be repeated."""
PARALLEL_TOOLS: Final = READ_ONLY_TOOLS | {"Agent"}
"""Tools of which several calls may be in one message."""


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    input: dict[str, Any]
    description: str
    """What it does, as in `read README.md`: for the sentences about it."""
    join: Join = "apart"
    again: bool = False
    """It was tried before."""

    @property
    def is_read_only(self) -> bool:
        return self.tool in READ_ONLY_TOOLS

    @property
    def is_parallel(self) -> bool:
        return self.tool in PARALLEL_TOOLS


@dataclass(frozen=True, slots=True)
class Speech:
    text: str
    description: str
    join: Join = "apart"
    gives_up: bool = False
    """What depends on it is not done."""


@dataclass(frozen=True, slots=True)
class Thought:
    text: str
    description: str
    join: Join = "apart"


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float
    description: str
    join: Join = "apart"


Action = Call | Speech | Thought | Pause


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the model has to work with: its tools and its folder."""

    tools: frozenset[str]
    folder: str | None
    """Where relative paths start, as far as it was told."""
    isolates_agents: bool = False
    """Agents can work in worktrees of their own."""

    def suggest_requests(self) -> list[str]:
        return suggest_requests(self.tools, self.folder)

    def resolve_path(self, path: str) -> str:
        path = os.path.expanduser(path)
        return os.path.normpath(os.path.join(self.folder, path)) if self.folder else path


def plan_actions(requested_steps: Sequence[RequestedStep], capabilities: Capabilities) -> list[Action]:
    """The actions for a request, without those that depend on what cannot be done."""
    actions: list[Action] = []
    left_out: list[str] = []
    gave_up = False
    for requested in requested_steps:
        if gave_up and requested.join != "apart":
            left_out.append(requested.words)
            continue
        actions += _report_left_out(left_out)
        steps = _join_actions(_build_actions(requested, capabilities, alone=len(requested_steps) == 1), requested.join)
        gave_up = any(isinstance(action, Speech) and action.gives_up for action in steps)
        actions += steps
        left_out = []
    return actions + _report_left_out(left_out)


def _report_left_out(words: Sequence[str]) -> list[Action]:
    return [Speech(speech.describe_left_out(words), "say what is left out", "with")] if words else []


def _join_actions(actions: Iterable[Action], join: Join) -> list[Action]:
    """The first action is joined to what was before it as the step is; the others stay joined as they are."""
    return [action if at else replace(action, join=join) for at, action in enumerate(actions)]


def _build_actions(requested: RequestedStep, capabilities: Capabilities, *, alone: bool) -> list[Action]:
    actions = _translate_step(requested.step, requested.words, capabilities, alone=alone)
    missing = sorted({action.tool for action in actions if isinstance(action, Call)} - capabilities.tools)
    if missing:
        return [Speech(speech.describe_missing_tools(missing, requested.words), requested.words, gives_up=True)]
    return actions


def _translate_step(step: Step, words: str, capabilities: Capabilities, *, alone: bool) -> list[Action]:  # noqa: PLR0912 - one case a step
    match step:
        case Read():
            return [_build_read(step, capabilities)]
        case ListFiles(pattern, folder):
            return [Call("Glob", {"pattern": pattern} | _limit_to_folder(folder, capabilities), words)]
        case Find():
            return [_build_grep(step, capabilities)]
        case Fetch(url):
            return [Call("WebFetch", {"url": url, "prompt": f"What does {url} say?"}, f"fetch {url}")]
        case SearchWeb():
            return [_build_web_search(step, capabilities)]
        case Replace(old, new, path, every):
            edit: dict[str, Any] = {"file_path": capabilities.resolve_path(path), "old_string": old, "new_string": new}
            if every:
                edit |= {"replace_all": True}
            return [_build_read(Read(path), capabilities), Call("Edit", edit, words, "after")]
        case Write(content, path):
            return [Call("Write", {"file_path": capabilities.resolve_path(path), "content": content}, f"write {path}")]
        case Run(command, in_background):
            shown = speech.clip(command, 60)
            background = {"run_in_background": True} if in_background else {}
            return [Call("Bash", {"command": command, "description": f"Run {shown}", **background}, f"run `{shown}`")]
        case Ask():
            return _build_question(step, words, capabilities)
        case Plan():
            return _build_plan(step, words, capabilities)
        case Delegate():
            return _build_agents(step, words, capabilities)
        case MakeList():
            return _build_list(step, words, capabilities)
        case Think(about):
            return [Thought(speech.render_thought(about), words), Speech(speech.describe_thought(about), words, "with")]
        case Say(text):
            return [Speech(text, words)]
        case Wait(seconds):
            if "Sleep" in capabilities.tools:
                return [Call("Sleep", {"seconds": seconds}, words)]
            return [Speech(speech.describe_wait(seconds), words), Pause(seconds, words, "with")]
        case PermissionTest():
            return [Call("TestingPermission", {}, words)]
        case UseTool(tool, tool_input):
            return [Call(tool, tool_input, f"call {tool}")]
        case Introduce():
            return [Speech(speech.introduce(capabilities.suggest_requests()), words)]
        case Unclear(hint):
            text = (
                speech.introduce(capabilities.suggest_requests(), words, hint)
                if alone
                else speech.describe_unclear(words, hint)
            )
            return [Speech(text, words, gives_up=True)]
        case _:
            assert_never(step)


def _build_read(step: Read, capabilities: Capabilities) -> Call:
    tool_input: dict[str, Any] = {"file_path": capabilities.resolve_path(step.path)}
    description = f"read {step.path}"
    if step.first is not None and step.last is not None:
        tool_input |= {"offset": step.first, "limit": step.last - step.first + 1}
        description = f"read lines {step.first} to {step.last} of {step.path}"
    return Call("Read", tool_input, description)


def _build_web_search(step: SearchWeb, capabilities: Capabilities) -> Call:
    if step.otherwise is not None and "WebSearch" not in capabilities.tools:
        return _build_grep(step.otherwise, capabilities)
    return Call("WebSearch", {"query": step.query}, f"search the web for {speech.clip(step.query, 60)}")


def _build_grep(step: Find, capabilities: Capabilities) -> Call:
    tool_input = {"pattern": step.pattern, "output_mode": "content"} | _limit_to_folder(step.folder, capabilities)
    if step.glob:
        tool_input |= {"glob": step.glob}
    where = "/".join(part for part in (step.folder, step.glob) if part)
    return Call("Grep", tool_input, f"find {speech.clip(step.shown, 60)}" + (f" in {where}" if where else ""))


def _limit_to_folder(folder: str | None, capabilities: Capabilities) -> dict[str, str]:
    return {"path": capabilities.resolve_path(folder)} if folder else {}


def _build_question(step: Ask, words: str, capabilities: Capabilities) -> list[Action]:
    if "AskUserQuestion" not in capabilities.tools:
        return [Speech(speech.describe_unasked(step.question), words, gives_up=True)]
    options = [{"label": option} for option in step.options]
    question = {"question": step.question, "header": "Question", "options": options, "multiSelect": False}
    return [Call("AskUserQuestion", {"questions": [question]}, words)]


def _build_plan(step: Plan, words: str, capabilities: Capabilities) -> list[Action]:
    text = speech.render_plan([_describe_planned(requested) for requested in step.steps])
    if "ExitPlanMode" not in capabilities.tools:
        return [Speech(text + "\n\n" + speech.PLAN_ONLY, words)]
    enter: list[Action] = [Call("EnterPlanMode", {}, "plan first")] if "EnterPlanMode" in capabilities.tools else []
    leave = Call("ExitPlanMode", {"plan": text}, "show the plan", "after")
    work = plan_actions(step.steps, capabilities)
    return [*enter, leave, *_join_actions(work, "after")]


_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def _describe_planned(requested: RequestedStep) -> tuple[str, list[str]]:
    match requested.step:
        case Unclear():
            return f"{requested.words} (I do not understand this step)", []
        case MakeList(items=items):
            return "make a list:", [item.subject for item in items]
        case _:
            return requested.words, []


def _build_agents(step: Delegate, words: str, capabilities: Capabilities) -> list[Action]:
    """A call for each agent, all of them in one message."""
    if step.isolated and "Agent" in capabilities.tools and not capabilities.isolates_agents:
        return [Speech(speech.describe_unisolated(words), words, gives_up=True)]
    options: dict[str, Any] = {"subagent_type": step.kind} if step.kind else {}
    if step.in_background:
        options |= {"run_in_background": True}
    if step.isolated:
        options |= {"isolation": "worktree"}
    actions: list[Action] = []
    for name, work in zip(_ORDINALS, step.works, strict=False):
        shown = speech.clip(work, 60)
        named = {"name": name} if len(step.works) > 1 else {}
        asked = f"ask the {name} agent to {shown}" if named else f"ask an agent to {shown}"
        given = {"description": shown, "prompt": work, **named, **options}
        actions.append(Call("Agent", given, asked, "with" if actions else "apart"))
    return actions


TODO_OF: Final = "the todo of "
"""Begins what stands for the id of a todo until the call that makes it has said the id."""


def _build_list(step: MakeList, words: str, capabilities: Capabilities) -> list[Action]:
    """The items are written down first; then what is understood of them is done, one after the other."""
    if "TodoWrite" in capabilities.tools:
        return [
            Call("TodoWrite", {"todos": [{"content": each.subject, "status": "pending"} for each in step.items]}, words)
        ]
    actions: list[Action] = [
        Call(
            "TaskCreate", {"subject": item.subject, "description": ""}, f"write down `{speech.clip(item.subject, 60)}`"
        )
        for item in step.items
    ]
    for item in step.items:
        if item.steps and "TaskUpdate" in capabilities.tools:
            actions.append(_update_todo(item.subject, "in_progress"))
            actions += _join_actions(plan_actions(item.steps, capabilities), "after")
            actions.append(_update_todo(item.subject, "completed"))
    return actions


def _update_todo(subject: str, status: str) -> Call:
    shown = speech.clip(subject, 60)
    description = f"begin `{shown}`" if status == "in_progress" else f"tick off `{shown}`"
    # What comes before in the list may have gone wrong: the next item is begun all the same.
    join: Join = "apart" if status == "in_progress" else "after"
    return Call("TaskUpdate", {"taskId": TODO_OF + subject, "status": status}, description, join)
