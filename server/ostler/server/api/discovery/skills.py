"""The handler of the skill method: list."""

from collections.abc import Iterator
from dataclasses import dataclass

from ostler.protocol.methods import SKILL_LIST
from ostler.protocol.skill import SkillEntry, SkillList, SkillPage, SkillProblem
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.engine import Engine
from ostler.server.engine.session.live import LiveSession
from ostler.server.rpc.paging import paginate_list
from ostler.server.settings import Problem
from ostler.server.settings import SkillEntry as Declared


@dataclass(frozen=True, slots=True)
class SkillMethods:
    engine: Engine

    async def list(self, params: SkillList, actor: SessionActor) -> SkillPage:
        live = actor.live
        await self.engine.settings_loader.load(live)
        page, token = paginate_list(SKILL_LIST.name, params, [_build_entry(each) for each in live.skills.values()])
        problems = (*live.settings.skill_problems, *live.nested_skill_problems, *_find_hidden(live))
        return SkillPage(
            skills=page,
            errors=[SkillProblem(path=each.file, line=each.line, message=each.message) for each in problems],
            next=token,
        )


def _find_hidden(live: LiveSession) -> Iterator[Problem]:
    """Skills of folders below that have the name of one of the session's own."""
    for entry in live.nested_skills if live.trusted else ():
        counting = live.skills[entry.name]
        if counting not in live.nested_skills:
            words = f"The skill {entry.name} is left out: {counting.file} has this name, too, and counts."
            yield Problem(entry.file, 1, 1, words)


def _build_entry(skill: Declared) -> SkillEntry:
    return SkillEntry(
        name=skill.name,
        description=skill.description,
        source=skill.source,
        path=skill.file,
        argument_hint=skill.hint,
        context=skill.context,
        model=skill.model,
        allowed_tools=list(skill.allowed),
        by_model=skill.by_model,
        by_person=skill.by_person,
    )
