"""A message that the agent sends to the people, beside what it says in its turn, and the files that go with it."""

from typing import Literal

from ostler.protocol.ids import CallId, ResultId
from ostler.protocol.wire import Shape, Time

BriefStatus = Literal["normal", "proactive"]


class Attachment(Shape):
    """A file, as it was when it was sent."""

    id: ResultId
    """What it is downloaded by: `GET /results/ID`."""
    path: str
    """Where it was."""
    size: int
    """How many bytes it has."""
    is_image: bool
    """Whether a client may show it as a picture."""


class Brief(Shape):
    """A message to the people."""

    call_id: CallId
    """The call that sent it."""
    message: str
    """What it says, as Markdown."""
    attachments: list[Attachment] = []
    """Files that go with it."""
    status: BriefStatus
    """`proactive`: nobody asked for it."""
    sent_at: Time
    """When it was sent."""
