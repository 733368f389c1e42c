"""Who is connected."""

from typing import Annotated, Any, Literal

from pydantic import Field

from ostler.protocol.ids import ClientCallId, ClientId, SessionId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.shapes import AskKind
from ostler.protocol.wire import AtMost50, JsonObject, Name, Params, Shape, Text, Time

ClientKind = Literal["ide", "terminal", "web", "ci", "sdk", "other"]


class ClientInfo(Params):
    """How a client introduces itself."""

    name: Name
    """What people call it."""
    version: Name
    """Its own version, as it writes it."""
    kind: ClientKind = "other"
    """What sort of program it is."""


class ClientCapabilities(Params):
    """What a client can do for the daemon."""

    answers: Annotated[list[AskKind], AtMost50] = []
    """Kinds of ask that it can show."""
    tools: Annotated[list[JsonObject], Field(max_length=200)] = []
    """Client-side tools that it provides, with their schemas: each has a `name`. They are called with `client.call`."""
    deltas: bool = True
    """False: only whole messages, no `message.delta`."""


class Initialize(Params):
    """Who is there, and what it can do."""

    client: ClientInfo
    """Who it is."""
    capabilities: ClientCapabilities = ClientCapabilities.model_construct()
    """What it can do; without it, it only watches and calls."""


class ServerIdentity(Shape):
    """The program that answers."""

    name: str = "ostler"
    """Always `ostler`."""
    version: str
    """The version of the program, not of the protocol."""


class ServerCapabilities(Shape):
    """What this daemon can do."""

    methods: list[str]
    """The methods that it answers."""
    events: list[str]
    """The types of event that it sends."""
    provider: str
    """Where model answers come from by default; `rehearsal` when there is no key."""
    socket: str | None
    """The path of its Unix socket, or null where there is none."""


class Limits(Shape):
    """The bounds that a client should know before it runs into them."""

    max_body_bytes: int
    """The largest body of a request."""
    max_batch: int
    """The most calls in one batch."""
    max_depth: int
    """How deep JSON may be nested."""
    max_values: int
    """How many values the JSON of a body may hold."""
    max_page: int
    """The largest `limit` of a list."""
    max_readers: int
    """The most event streams open at once, over all clients."""


class Initialized(Shape):
    """The daemon's half of the introduction."""

    client_id: ClientId
    """Send it as `Ostler-Client` with later calls and the event stream."""
    protocol_version: str
    """A date. Fields and events are only added within one version."""
    server: ServerIdentity
    """Which program this is."""
    database_id: str
    """Cursors belong to this database; another id means that they mean nothing any more."""
    capabilities: ServerCapabilities
    """What the daemon can do."""
    limits: Limits
    """The bounds that hold here."""


class Client(Shape):
    """A client that has introduced itself."""

    id: ClientId
    """Its `client_id`."""
    name: str
    """What it called itself."""
    version: str
    """Its own version."""
    kind: ClientKind
    """What sort of program it is."""
    capabilities: dict[str, Any] = {}
    """What it said that it can do."""
    attached: bool = False
    """An event stream of its is open."""
    session_ids: list[SessionId] = []
    """The sessions that it watches; empty while attached means all of them."""
    since: Time
    """When it introduced itself."""


class ClientList(Params):
    """Which clients to list."""

    session_id: SessionId | None = None
    """Only who watches this session."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class ClientPage(Shape):
    """Clients, by when they introduced themselves."""

    clients: list[Client]
    """The clients of this page, of those that are attached now."""
    next: str | None = None
    """The `page` to ask for next; null at the end."""


class ClientCall(Shape):
    """A client-side tool is wanted from one client."""

    id: ClientCallId
    """What `client/respond` names it by."""
    client_id: ClientId
    """The client that is meant; others ignore it."""
    tool: str
    """The tool, as the client named it in its capabilities."""
    input: dict[str, Any]
    """What it is called with."""
    timeout_ms: int
    """How long an answer is waited for."""


class ClientRespond(Params):
    """What came of a client-side call."""

    client_call_id: ClientCallId
    """The `id` of the `client.call`."""
    output: Any = None
    """What the tool gave: any JSON."""
    error: Text | None = None
    """Why it could not; then `output` does not count."""


class ClientResponded(Shape):
    """The answer arrived in time, and was the first."""

    client_call_id: ClientCallId
    """The call that it answered."""
