"""Forks: an agent that begins with all that its parent has sent to the model, whose cache its first request reads."""

from dataclasses import dataclass, replace
from typing import Any, Final

from ostler.protocol.ids import MessageId
from ostler.protocol.shapes import Call
from ostler.server.engine.session.agent_facts import REFUSED_TOOLS
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.turn.loop import TurnLoop
from ostler.storage import Tx
from ostler.storage.repositories.sessions import SessionRecord
from ostler.tools.services import AgentRefused, AgentRequest

_OF_THE_PARENT: Final = frozenset(
    {"makes_worktree_in", "makes_worktrees_for", "before_worktree", "structured_output", "forked_messages"}
)
"""What its state says of itself, and not of what the model was sent."""


@dataclass(frozen=True, slots=True)
class Fork:
    """What a fork takes from the turn of its parent that starts it."""

    parent: LiveSession
    run: TurnLoop
    call: Call

    def change_record(self, record: SessionRecord, request: AgentRequest) -> SessionRecord:
        """The same model, and the same tools as they were sent; those that it may not use are refused."""
        settings = self.run.settings
        if request.model is not None and request.model != settings.model:
            raise AgentRefused("A fork goes on with the model that you are, whose cache it reads: leave `model` out.")
        allowed: list[str] = record.options["tools"]
        refused = [tool.name for tool in self.run.toolset.tools if tool.name not in allowed]
        options = {**record.options, REFUSED_TOOLS: refused}
        if settings.thinking is not None:
            options["thinking"] = settings.thinking
        return replace(record, model=settings.model, options=options)

    def copy(self, tx: Tx, record: SessionRecord) -> None:
        """All up to the message that the call stands in: what the model was sent when it wrote that."""
        source, history = self.parent.record.id, self.parent.history
        at = tx.messages.find_position(source, MessageId(self.call.call_id.rpartition("#")[0]))
        tx.messages.copy(source, record.id, at - 1 if at is not None else None)
        tx.results.share(source, record.id)
        tx.todos.copy(source, record.id)
        for path, read in tx.states.list_reads(source).items():
            tx.states.put_read(record.id, path, read)
        kept: dict[str, Any] = {name: value for name, value in self.parent.state.items() if name not in _OF_THE_PARENT}
        if record.worktree_path is not None:
            kept["shell_folder"] = record.worktree_path
        kept["sent_tools"] = self.run.prefix.as_json()
        kept["forked_messages"] = len(history) - history.ends_with_assistant
        tx.states.put(record.id, kept)
