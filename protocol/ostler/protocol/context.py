"""What fills the window of a session's model, and what the session has used."""

from typing import Literal

from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import Usage
from ostler.protocol.wire import Shape

PartName = Literal["prompt", "tools", "instructions", "memory", "skills", "messages", "results", "thinking"]


class ContextPart(Shape):
    """One part of what is sent with every request."""

    name: PartName
    """`prompt`: our own words, and where the model is. `messages`: what was said and called, without the results."""
    tokens: int
    """How much of the window it takes."""
    estimated: bool = True
    """The provider counts whole requests only; the sum over all parts is what it counted, where it did."""


class SessionContext(Shape):
    """What fills the window of a session's model."""

    session_id: SessionId
    """The session."""
    model: str
    """The model whose window it is."""
    window: int
    """How many tokens the window holds."""
    compact_at: int
    """Above so many tokens the conversation is compacted before the next request."""
    used: int
    """How many the next request would take."""
    free: int
    """How many are left; none where more is used than the window holds."""
    estimated: bool
    """`used` is not what the provider counted with the last request, but that and an estimate, or an estimate alone."""
    parts: list[ContextPart]
    """The same by part."""


class ModelUsage(Usage):
    """What one model has taken."""

    model: str
    """The model."""


class AgentUsage(Usage):
    """What one agent has taken itself, without its own agents; or the session, without any."""

    agent_id: SessionId
    """Its session."""
    name: str | None = None
    """What it is called; null for the session itself."""
    kind: str | None = None
    """What kind of agent it is; null for the session itself."""


class ToolUsage(Usage):
    """What the calls of one tool have taken: what the model wrote for them, and what their results added, once."""

    tool: str
    """The tool."""
    calls: int
    """How often it was called."""
    estimated: bool = True
    """The provider counts whole requests only: this is counted by characters, and priced as the session's model."""


class UsageParts(Shape):
    """Tokens and money, in all and told apart."""

    total: Usage
    """In all, agents included."""
    by_model: list[ModelUsage]
    """By model, the most first."""
    by_agent: list[AgentUsage]
    """By agent, the session itself first."""
    by_tool: list[ToolUsage]
    """By tool, the most first."""


class SessionUsage(UsageParts):
    """What a session and its agents have used."""

    session_id: SessionId
    """The session."""
    today: UsageParts
    """The same since midnight, where the daemon is."""
