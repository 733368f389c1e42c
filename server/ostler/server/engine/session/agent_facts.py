"""What makes a session an agent: facts that are stored with it, and how its mode is narrowed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ostler.protocol.ids import CallId
from ostler.protocol.session import Mode
from ostler.protocol.shapes import AskingAgent
from ostler.storage.repositories.sessions import SessionRecord

OPTION: Final = "agent"
REFUSED_TOOLS: Final = "refused_tools"
"""The option with the tools that an agent is sent, as its prompt cache begins with them, and may not use."""
_NARROWER: Final[Mapping[Mode, tuple[Mode, ...]]] = {
    "plan": ("plan",),
    "dontAsk": ("dontAsk", "plan"),
    "default": ("default", "dontAsk", "plan"),
    "acceptEdits": ("acceptEdits", "default", "dontAsk", "plan"),
    # The classifier judges edits, too, which acceptEdits lets pass.
    "auto": ("auto", "default", "dontAsk", "plan"),
    "bypassPermissions": ("bypassPermissions", "auto", "acceptEdits", "default", "dontAsk", "plan"),
}
"""By mode: those in which nothing passes that would not pass in it."""


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What is stored of an agent beside the session that it is."""

    kind: str
    description: str
    instructions: str
    """The kind's part of the system prompt, as it was at the start."""
    call_id: CallId
    """The call of its parent that started it."""
    settings_folder: str
    """Whose settings hold: the folder of the session at the top."""
    name: str | None = None
    mode: Mode | None = None
    """A mode that is to be narrower than its parent's."""
    one_folder: bool = False
    """Its own folder is the only one that it may work in."""

    @property
    def shown(self) -> AskingAgent:
        return AskingAgent(name=self.name or self.description, kind=self.kind)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def find_agent_facts(record: SessionRecord) -> AgentFacts | None:
    """None for a session that is no agent."""
    stored = record.options.get(OPTION)
    return AgentFacts(**stored) if stored is not None else None


def find_settings_folder(record: SessionRecord) -> str:
    """The folder whose settings hold in a session: a child that works further down has its parent's."""
    stored = record.options.get(OPTION)
    return stored["settings_folder"] if stored is not None else record.cwd


def narrow_mode(parent: Mode, wanted: Mode | None) -> Mode:
    """The mode of an agent: the one wanted where that is narrower than its parent's, else its parent's."""
    return wanted if wanted is not None and wanted in _NARROWER[parent] else parent
