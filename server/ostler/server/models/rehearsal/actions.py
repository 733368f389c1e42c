"""What the model does about a step: tools that it calls, words that it says."""

import os.path
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, assert_never

from ostler.server.models.rehearsal import speech
from ostler.server.models.rehearsal.steps import (
    Ask,
    Find,
    Introduce,
    Join,
    ListFiles,
    PermissionTest,
    Plan,
    Read,
    Replace,
    Run,
    Say,
    Step,
    Think,
    Unclear,
    Use,
    Wait,
    Wish,
    Write,
)

LOOKING: Final = frozenset({"Read", "Glob", "Grep"})
"""Tools that change nothing: their calls may stand beside each other, and may be repeated."""


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    input: dict[str, Any]
    doing: str
    """`read README.md`: for the sentences about it."""
    join: Join = "apart"
    again: bool = False
    """It was tried before."""

    @property
    def looks(self) -> bool:
        return self.tool in LOOKING


@dataclass(frozen=True, slots=True)
class Speech:
    text: str
    doing: str
    join: Join = "apart"
    gives_up: bool = False
    """What depends on it is not done."""


@dataclass(frozen=True, slots=True)
class Thought:
    text: str
    doing: str
    join: Join = "apart"


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float
    doing: str
    join: Join = "apart"


Action = Call | Speech | Thought | Pause


@dataclass(frozen=True, slots=True)
class Means:
    """What the model has to work with."""

    tools: frozenset[str]
    folder: str | None
    """Where relative paths start, as far as it was told."""

    def path(self, path: str) -> str:
        path = os.path.expanduser(path)
        return os.path.normpath(os.path.join(self.folder, path)) if self.folder else path


def planned(wishes: Sequence[Wish], means: Means) -> list[Action]:
    """The actions for a request, without those that depend on what cannot be done."""
    actions: list[Action] = []
    left_out: list[str] = []
    gave_up = False
    for wish in wishes:
        if gave_up and wish.join != "apart":
            left_out.append(wish.words)
            continue
        actions += _told_left_out(left_out)
        steps = _joined(_actions(wish, means, alone=len(wishes) == 1), wish.join)
        gave_up = any(isinstance(action, Speech) and action.gives_up for action in steps)
        actions += steps
        left_out = []
    return actions + _told_left_out(left_out)


def _told_left_out(words: Sequence[str]) -> list[Action]:
    return [Speech(speech.left_out(words), "say what is left out", "with")] if words else []


def _joined(actions: Iterable[Action], join: Join) -> list[Action]:
    """The first of them stands to what was before as the step does; each further one needs the one before it."""
    return [action if at else replace(action, join=join) for at, action in enumerate(actions)]


def _actions(wish: Wish, means: Means, *, alone: bool) -> list[Action]:
    found = _wanted(wish.step, wish.words, means, alone=alone)
    missing = sorted({action.tool for action in found if isinstance(action, Call)} - means.tools)
    if missing:
        return [Speech(speech.missing_tools(missing, wish.words), wish.words, gives_up=True)]
    return found


def _wanted(step: Step, words: str, means: Means, *, alone: bool) -> list[Action]:  # noqa: PLR0912 - one case a step
    match step:
        case Read():
            return [_read(step, means)]
        case ListFiles(pattern, folder):
            return [Call("Glob", {"pattern": pattern} | _in(folder, means), words)]
        case Find():
            return [_grep(step, means)]
        case Replace(old, new, path, every):
            edit: dict[str, Any] = {"file_path": means.path(path), "old_string": old, "new_string": new}
            if every:
                edit |= {"replace_all": True}
            return [_read(Read(path), means), Call("Edit", edit, words, "after")]
        case Write(content, path):
            return [Call("Write", {"file_path": means.path(path), "content": content}, f"write {path}")]
        case Run(command, in_background):
            shown = speech.clipped(command, 60)
            behind = {"run_in_background": True} if in_background else {}
            return [Call("Bash", {"command": command, "description": f"Run {shown}", **behind}, f"run `{shown}`")]
        case Ask():
            return _ask(step, words, means)
        case Plan():
            return _plan(step, words, means)
        case Think(about):
            return [Thought(speech.thought(about), words), Speech(speech.thought_told(about), words, "with")]
        case Say(text):
            return [Speech(text, words)]
        case Wait(seconds):
            if "Sleep" in means.tools:
                return [Call("Sleep", {"seconds": seconds}, words)]
            return [Speech(speech.waiting(seconds), words), Pause(seconds, words, "with")]
        case PermissionTest():
            return [Call("TestingPermission", {}, words)]
        case Use(tool, given):
            return [Call(tool, given, f"call {tool}")]
        case Introduce():
            return [Speech(speech.introduction(), words)]
        case Unclear(hint):
            text = speech.introduction(words, hint) if alone else speech.unclear(words, hint)
            return [Speech(text, words, gives_up=True)]
        case _:
            assert_never(step)


def _read(step: Read, means: Means) -> Call:
    given: dict[str, Any] = {"file_path": means.path(step.path)}
    doing = f"read {step.path}"
    if step.first is not None and step.last is not None:
        given |= {"offset": step.first, "limit": step.last - step.first + 1}
        doing = f"read lines {step.first} to {step.last} of {step.path}"
    return Call("Read", given, doing)


def _grep(step: Find, means: Means) -> Call:
    given = {"pattern": step.pattern, "output_mode": "content"} | _in(step.folder, means)
    if step.glob:
        given |= {"glob": step.glob}
    where = "/".join(part for part in (step.folder, step.glob) if part)
    return Call("Grep", given, f"find {speech.clipped(step.shown, 60)}" + (f" in {where}" if where else ""))


def _in(folder: str | None, means: Means) -> dict[str, str]:
    return {"path": means.path(folder)} if folder else {}


def _ask(step: Ask, words: str, means: Means) -> list[Action]:
    if "AskUserQuestion" not in means.tools:
        return [Speech(speech.cannot_ask(step.question), words, gives_up=True)]
    options = [{"label": option} for option in step.options]
    question = {"question": step.question, "header": "Question", "options": options, "multiSelect": False}
    return [Call("AskUserQuestion", {"questions": [question]}, words)]


def _plan(step: Plan, words: str, means: Means) -> list[Action]:
    text = speech.plan([(wish.words, isinstance(wish.step, Unclear)) for wish in step.steps])
    if "ExitPlanMode" not in means.tools:
        return [Speech(text + "\n\n" + speech.PLAN_ONLY, words)]
    enter: list[Action] = [Call("EnterPlanMode", {}, "plan first")] if "EnterPlanMode" in means.tools else []
    leave = Call("ExitPlanMode", {"plan": text}, "show the plan", "after")
    work = planned(step.steps, means)
    return [*enter, leave, *_joined(work, "after")]
