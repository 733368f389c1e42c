"""The skills of one session: for the tool Skill, for input that begins with `/name`, and as a list for the model."""

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ostler.protocol.turn import Input, InputBlock, InputText
from ostler.server.engine.session.effective_settings import SKILL_LIST
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.prompt.environment import to_printable
from ostler.server.prompt.reminders import wrap_note
from ostler.server.settings import SkillEntry
from ostler.server.settings.skills.parse import BadSkill, fill_arguments, read_skill_file
from ostler.tools.services import AgentRefused, OpenedSkill, SkillInfo, SkillRefused
from ostler.tools.text import one_line
from ostler.tools.threads import read_in_thread

_MAX_TEXT: Final = 45_000
"""Characters of a skill's text: what is longer is read from its file where it is needed."""
_TOLD: Final = "skills_told"
_MAX_TOLD: Final = 20


@dataclass(frozen=True, slots=True)
class SessionSkills:
    """See `ostler.tools.services.Skills`."""

    session: LiveSession
    state: TurnState

    def list_skills(self) -> list[SkillInfo]:
        return [build_info(entry) for entry in self.session.skills.values()]

    def find(self, name: str) -> SkillInfo | None:
        entry = self.session.skills.get(name)
        return build_info(entry) if entry is not None else None

    def was_asked_for(self, name: str) -> bool:
        return name in self.session.turn_skills

    async def open(self, name: str, arguments: str) -> OpenedSkill:
        entry = self.session.skills.get(name)
        if entry is None:
            raise SkillRefused(f"There is no skill {name[:100]!r} here.")
        return OpenedSkill(build_info(entry), await read_skill(entry, arguments))

    def take_up(self, skill: SkillInfo) -> None:
        self.session.use_skills([skill.name])
        if skill.model is not None:
            self.state.wanted_model = choose_model(self.session, skill.model)


def choose_model(session: LiveSession, wanted: str) -> str | None:
    """The model that a skill wants; None where its name means nothing here, and the session's goes on."""
    with contextlib.suppress(AgentRefused):
        return session.agents.choose_model(session, wanted)
    return None


def build_info(entry: SkillEntry) -> SkillInfo:
    return SkillInfo(
        entry.name,
        entry.description,
        entry.file,
        entry.allowed,
        entry.model,
        entry.context,
        entry.agent,
        entry.by_model,
    )


async def read_skill(entry: SkillEntry, arguments: str) -> str:
    """Its text for the model, in a tag of ours. Raises SkillRefused where the file is not what it was."""
    return await read_in_thread(_read_skill, entry, arguments)


def _read_skill(entry: SkillEntry, arguments: str) -> str:
    try:
        digest, parsed = read_skill_file(entry.file)
    except BadSkill as bad:
        raise SkillRefused(f"The skill {entry.name} cannot be read ({entry.file}:{bad.line}): {bad.message}") from None
    if digest != entry.digest:
        # What it says now was not looked at, and perhaps not trusted: that is done when the next turn begins.
        raise SkillRefused(f"The skill {entry.name} was changed a moment ago. It can be used again in the next turn.")
    body = parsed.body
    cut = ""
    if len(body) > _MAX_TEXT:
        body = body[:_MAX_TEXT].rpartition("\n")[0] or body[:_MAX_TEXT]
        cut = f"\n\n(Cut after {len(body):,} characters; {entry.file} has the rest.)"
    text = fill_arguments(body, arguments) + cut
    if entry.folder is not None:
        text = f"Folder of this skill: {to_printable(entry.folder)}\n\n{text}"
    # Its own digest closes it: no file can contain that, and so none can pretend to end early.
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    return f'<ostler-skill id="{mark}" name="{to_printable(entry.name)}">\n{text}\n</ostler-skill id="{mark}">'


# Input that begins with `/name`.


@dataclass(frozen=True, slots=True)
class ExpandedSkill:
    """Input that takes up a skill."""

    entry: SkillEntry
    blocks: list[dict[str, Any]]
    """What takes the place of its first text."""


def begins_with_command(given: Input) -> bool:
    """Whether it may be one: what begins with a slash may be a path, too."""
    first = given if isinstance(given, str) else next(iter(given), None)
    text = first.text if isinstance(first, InputText) else first
    return isinstance(text, str) and text.startswith("/")


async def expand_command(session: LiveSession, blocks: Sequence[InputBlock]) -> ExpandedSkill | None:
    """The skill that the input begins with, as `/name arguments`; None where it does not. Raises SkillRefused."""
    first = blocks[0] if blocks else None
    if not isinstance(first, InputText) or not first.text.startswith("/"):
        return None
    name, arguments = split_command(first.text)
    entry = session.skills.get(name)
    if entry is None or not entry.by_person:
        return None
    said = {"type": "text", "text": first.text}
    if entry.context == "fork" and session.view.agent_kinds and (tool := _find_skill_tool(session)) is not None:
        note = f"The person asks for the skill {entry.name}, which an agent works on: call {tool} with its arguments."
        return ExpandedSkill(entry, [said, {"type": "text", "text": wrap_note(note)}])
    text = await read_skill(entry, arguments)
    return ExpandedSkill(entry, [said, {"type": "text", "text": text}])


def split_command(text: str) -> tuple[str, str]:
    """Of `/name arguments` both; the arguments may begin on the next line."""
    words = text[1:].split(maxsplit=1)
    if not words or text[1:2].isspace():
        return "", ""
    return words[0], text[1 + len(words[0]) :].strip()


def _find_skill_tool(session: LiveSession) -> str | None:
    return next((tool.name for tool in session.build_toolset().tools if tool.takes_up_skills), None)


# The list for the model.


def build_skill_state(session: LiveSession, most_chars: int) -> dict[str, Any]:
    """The session state to store with the input of a turn: the list is built once, and what came since is told."""
    # Imported here: with the tools, which are loaded for the first session.
    from ostler.tools.discovery.skill import describe_skills  # noqa: PLC0415

    infos = [build_info(entry) for entry in session.skills.values()]
    told = {_TOLD: _summarise(infos)}
    if SKILL_LIST in session.state:
        return told if session.state.get(_TOLD) != told[_TOLD] else {}
    return {SKILL_LIST: describe_skills(infos, most_chars), **told}


def describe_skill_changes(session: LiveSession) -> list[str]:
    """A note where skills came, went or changed since the model was told of them."""
    before: Mapping[str, str] | None = session.state.get(_TOLD)
    if before is None or _find_skill_tool(session) is None:
        return []
    infos = [build_info(entry) for entry in session.skills.values()]
    now = _summarise(infos)
    new = [info for info in infos if info.name in now and before.get(info.name) != now[info.name]]
    gone = [name for name in before if name not in now]
    lines = [f"- {info.name}: {one_line(info.description, 300)}" for info in new[:_MAX_TOLD]]
    if len(new) > _MAX_TOLD:
        lines.append(f"- and {len(new) - _MAX_TOLD} more")
    if gone:
        lines.append(f"No longer there: {', '.join(gone[:_MAX_TOLD])}")
    return [wrap_note("\n".join(["The skills have changed:", *lines]))] if lines else []


def _summarise(infos: Sequence[SkillInfo]) -> dict[str, str]:
    return {
        info.name: hashlib.sha256(info.description.encode("utf-8", "replace")).hexdigest()[:8]
        for info in infos
        if info.by_model
    }
