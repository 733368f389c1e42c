"""What can be asked of an ask, and how one is answered."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from ostler.protocol.ids import AskId, SessionId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.session import Mode, RuleText
from ostler.protocol.shapes import Ask, AskStatus
from ostler.protocol.wire import AtMost50, JsonObject, Params, Shape, Text

Scope = Literal["session", "local", "project", "user"]


class AskList(Params):
    """Which asks to list."""

    session_id: SessionId | None = None
    """Only asks of this session and its agents."""
    status: AskStatus | None = "open"
    """Only asks of this status. Null: all."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class AskPage(Shape):
    """Asks, oldest first."""

    asks: list[Ask]
    """The asks of this page."""
    next: str | None
    """The `page` to ask for next; null at the end."""


class AskRef(Params):
    """One ask."""

    ask_id: AskId
    """Which ask."""


class Allow(Params):
    """Permission: yes, this once."""

    choice: Literal["allow"] = "allow"
    """Always `allow`."""
    input: dict[str, Any] | None = None
    """What the tool is given instead, if it shall be given something else."""


class AllowAlways(Params):
    """Permission: yes, and do not ask again."""

    choice: Literal["allow_always"] = "allow_always"
    """Always `allow_always`."""
    rule: RuleText | None = None
    """The rule to remember. Null: the first suggestion."""
    scope: Scope = "session"
    """How far it reaches."""


class Deny(Params):
    """Permission: no."""

    choice: Literal["deny"] = "deny"
    """Always `deny`."""
    message: Text | None = None
    """Words for the model; with them the turn goes on."""
    interrupt: bool | None = None
    """Whether the turn ends. Null: it does, unless there are words for the model."""


class DenyAlways(Params):
    """Permission: no, and do not ask again."""

    choice: Literal["deny_always"] = "deny_always"
    """Always `deny_always`."""
    rule: RuleText | None = None
    """The rule to remember. Null: the first suggestion; it is needed where there is none."""
    scope: Scope = "session"
    """How far it reaches."""
    message: Text | None = None
    """Words for the model; with them the turn goes on."""
    interrupt: bool | None = None
    """Whether the turn ends. Null: it does, unless there are words for the model."""


class GiveAnswers(Params):
    """Question: the answers."""

    choice: Literal["answer"] = "answer"
    """Always `answer`."""
    answers: Annotated[dict[Text, list[Text]], AtMost50]
    """Labels, or the person's own words, by question."""
    notes: Annotated[dict[Text, Text], AtMost50] = {}
    """Further words by question."""


class Decline(Params):
    """Question or elicitation: no answer."""

    choice: Literal["decline"] = "decline"
    """Always `decline`."""
    message: Text | None = None
    """Words for whoever asked."""


class Approve(Params):
    """Plan: go ahead."""

    choice: Literal["approve"] = "approve"
    """Always `approve`."""
    plan: Text | None = None
    """The plan as the person changed it. Null: as it was."""
    mode: Mode | None = None
    """The mode from now on. Null: the one before planning."""


class Reject(Params):
    """Plan: go on planning."""

    choice: Literal["reject"] = "reject"
    """Always `reject`."""
    message: Text | None = None
    """What is wrong with it."""


class Accept(Params):
    """Elicitation: what the server wants."""

    choice: Literal["accept"] = "accept"
    """Always `accept`."""
    content: JsonObject | None = None
    """What its schema asks for."""


class Cancel(Params):
    """Elicitation: leave it."""

    choice: Literal["cancel"] = "cancel"
    """Always `cancel`."""


class TrustFolder(Params):
    """Trust: what the folder brings may act."""

    choice: Literal["trust"] = "trust"
    """Always `trust`."""


class RestrictFolder(Params):
    """Trust: what the folder brings does nothing."""

    choice: Literal["restrict"] = "restrict"
    """Always `restrict`."""


Answer = Annotated[
    Annotated[Allow, Tag("allow")]
    | Annotated[AllowAlways, Tag("allow_always")]
    | Annotated[Deny, Tag("deny")]
    | Annotated[DenyAlways, Tag("deny_always")]
    | Annotated[GiveAnswers, Tag("answer")]
    | Annotated[Decline, Tag("decline")]
    | Annotated[Approve, Tag("approve")]
    | Annotated[Reject, Tag("reject")]
    | Annotated[Accept, Tag("accept")]
    | Annotated[Cancel, Tag("cancel")]
    | Annotated[TrustFolder, Tag("trust")]
    | Annotated[RestrictFolder, Tag("restrict")],
    Discriminator("choice"),
]


class AskResolve(Params):
    """An answer."""

    ask_id: AskId
    """Which ask."""
    answer: Answer
    """One of the ask's `choices`, with what belongs to it."""
