"""The queue of agents that wait for their place: as many as may work at once below a session do so already.

An agent in it has no session yet, and is kept in memory only: after a crash its call is over, and so is its wait.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ostler.protocol import times
from ostler.protocol.agent import AgentInfo
from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import Call, Usage
from ostler.server.engine.session.agent_facts import narrow_mode
from ostler.server.engine.session.live import LiveSession
from ostler.tools.services import AgentRequest


@dataclass(slots=True)
class AgentQueue:
    """Those that wait, whoever came first before the others."""

    _waiting: list[AgentInfo] = field(default_factory=list)

    @contextmanager
    def show(self, parent: LiveSession, request: AgentRequest, call: Call) -> Iterator[None]:
        """Shows the agent that a call asks for, while the body waits for its place."""
        kind = next((kind for kind in parent.view.agent_kinds if kind.name == request.kind), None)
        info = AgentInfo(
            agent_id=None,
            call_id=call.call_id,
            name=request.name,
            kind=request.kind,
            status="queued",
            parent_id=parent.record.id,
            description=request.description,
            model=request.model or (kind.model if kind is not None else None) or parent.record.model,
            mode=narrow_mode(narrow_mode(parent.mode, kind.mode if kind is not None else None), request.mode),
            usage=Usage(),
            started_at=times.now(),
        )
        self._waiting.append(info)
        try:
            yield
        finally:
            # Two of them may say the same.
            self._waiting = [each for each in self._waiting if each is not info]

    def list_waiting(self, parents: Collection[SessionId]) -> list[AgentInfo]:
        """Those that are to work for one of these sessions."""
        return [info for info in self._waiting if info.parent_id in parents]
