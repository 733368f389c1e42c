"""The daemon itself, as a client sees it."""

from ostler.protocol.client import Limits, ServerIdentity
from ostler.protocol.ids import Cursor
from ostler.protocol.wire import Shape, Time


class ServerInfo(Shape):
    """A daemon, and where it is."""

    server: ServerIdentity
    """Which program this is."""
    protocol_version: str
    """A date. Fields and events are only added within one version."""
    pid: int
    """Its process id."""
    started_at: Time
    """When it started."""
    url: str
    """Where it listens."""
    socket: str | None
    """The path of its Unix socket, or null where there is none."""
    home: str
    """The folder that holds its database."""
    database_id: str
    """Cursors belong to this database."""
    cursor: Cursor
    """The end of the log."""
    model: str
    """The default model of new sessions."""
    provider: str
    """Where model answers come from by default."""
    ready: bool
    """The database is open and can be written."""
    read_only: str | None
    """Why the daemon does not write any more, or null."""
    limits: Limits
    """The bounds that hold here."""


class ServerStats(Shape):
    """Counts and sizes of a running daemon."""

    uptime_ms: int
    """How long it has been running."""
    rss_bytes: int
    """Memory that it occupies."""
    cursor: Cursor
    """The end of the log."""
    sessions: int
    """Sessions that are stored."""
    tasks: int
    """Background tasks that run now."""
    events: int
    """Events that are kept in the log."""
    readers: int
    """Event streams open now."""
    readers_cut: int
    """Readers that were cut since the start because they fell behind."""
    clients_attached: int
    """Clients with an event stream open."""
    calls: int
    """Calls answered since the start."""
    commits: int
    """Commits since the start."""
    writes: int
    """Units of work, many to a commit."""
    writes_pending: int
    """Units of work that wait for the disk now."""
    database_bytes: int
    """Size of the database file."""
    wal_bytes: int
    """Size of its write-ahead log."""


class ShutdownStarted(Shape):
    """The daemon is on its way out."""

    pid: int
    """The process that is stopping; it is gone when this pid is."""
    stopping: bool = True
    """Always true."""
