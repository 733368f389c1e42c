"""`config.toml`: how the daemon runs. The person writes it; nothing in a project can change it."""

from decimal import Decimal
from ipaddress import ip_network
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ostler.protocol.limits import DEFAULT_PORT
from ostler.protocol.wire import Name, Params, PathText, Shape


class Section(BaseModel):
    # Validated at once, and strict about names: a misspelt setting must not be a setting that does nothing.
    # Only the validator of the whole configuration is ever needed: none is built for a section alone.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def _check_network(text: str) -> str:
    ip_network(text, strict=False)
    return text


Network = Annotated[str, Field(min_length=2, max_length=50), AfterValidator(_check_network)]
HostName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.:\[\]_-]+$")]
HostPattern = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^(\*\.)?[A-Za-z0-9.:\[\]_-]+$")]


class Listen(Section):
    """Where the daemon can be reached."""

    host: HostName = "127.0.0.1"
    """The address to listen on. Anything but loopback also needs `behind_proxy`."""
    port: Annotated[int, Field(ge=0, le=65535)] = DEFAULT_PORT
    """0 is any free port. Where none is set: the one that this home had last, else 7717, else any free one."""
    socket: PathText | None = None
    """The Unix socket. Null: in the runtime folder, under a name of this home's own."""
    allow_hosts: list[HostName] = []
    """Further values of `Host` that are accepted, as `name` or `name:port`."""
    allow_origins: list[str] = []
    """Values of `Origin` that are accepted, as `https://name:port`."""
    behind_proxy: bool = False
    """A reverse proxy with TLS stands in front: allows an address that is not loopback."""


class Limits(Section):
    """Bounds that keep one client from being everybody's problem."""

    readers: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Event streams open at once."""
    connections: Annotated[int, Field(ge=8, le=50_000)] = 1024
    """Connections open at once, event streams included."""
    queue_events: Annotated[int, Field(ge=16, le=1_000_000)] = 8192
    """Events that wait for one slow reader before it is cut."""
    queue_bytes: Annotated[int, Field(ge=65_536, le=1_073_741_824)] = 2 * 1024 * 1024
    """Bytes of events that wait for one slow reader before it is cut."""
    running_turns: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Turns that run at once; further ones are queued. Those of agents do not count, nor one that waits for an ask."""
    pending_writes: Annotated[int, Field(ge=16, le=1_000_000)] = 10_000
    """Writes that wait for the disk before new ones are refused as `overloaded`."""
    header_bytes: Annotated[int, Field(ge=4096, le=1_048_576)] = 64 * 1024
    """The longest headers of a request."""
    header_seconds: Annotated[float, Field(gt=0, le=600)] = 10
    """From the first byte of a request to the end of its headers, and from connecting to the first byte."""
    body_seconds: Annotated[float, Field(gt=0, le=3600)] = 30
    """The longest silence while a body is being sent."""
    idle_seconds: Annotated[float, Field(gt=0, le=3600)] = 75
    """How long a connection without a request is kept."""
    wrong_tokens_per_minute: Annotated[int, Field(ge=0, le=10_000)] = 10
    """Wrong tokens before the next wrong one is answered late."""


class Price(Section):
    """What a million tokens of a model cost, in dollars."""

    input: Annotated[Decimal, Field(ge=0)]
    """Tokens sent."""
    output: Annotated[Decimal, Field(ge=0)]
    """Tokens written."""
    cache_read: Annotated[Decimal, Field(ge=0)] | None = None
    """Tokens found in the cache. Null: a tenth of `input`."""
    cache_write: Annotated[Decimal, Field(ge=0)] | None = None
    """Tokens put into the cache. Null: five quarters of `input`."""


class Model(Section):
    """Which model answers, and how patient the daemon is with it. `model = "NAME"` is short for its `name`."""

    name: Name | None = None
    """The model of new sessions. Null: `claude-sonnet-5` where a key or base URL is set, else `rehearsal`."""
    fallback: Name | None = None
    """The model that takes over for the rest of a turn when the first one stays overloaded."""
    small: Name | None = None
    """The model for short judgements, as in mode `auto`. Null: a small one of the same family."""
    max_retries: Annotated[int, Field(ge=0, le=100)] = 5
    """How often a request that failed for a passing reason is made again; after three broken streams, without one."""
    first_wait_seconds: Annotated[float, Field(ge=0, le=60)] = 1
    """How long the first retry waits; each one after it waits twice as long."""
    max_wait_seconds: Annotated[float, Field(ge=0, le=3600)] = 60
    """The longest wait between two tries; ten times as long where the provider asks for it."""
    connect_seconds: Annotated[float, Field(gt=0, le=600)] = 20
    """How long connecting to the provider may take."""
    silence_seconds: Annotated[float, Field(gt=0, le=3600)] = 120
    """How long the provider may say nothing before a stream counts as dropped."""
    message_seconds: Annotated[float, Field(gt=0, le=86_400)] = 3600
    """How long one message may take in all, for a model that never stops."""
    max_output_tokens: Annotated[int, Field(ge=1, le=10_000_000)] = 32_000
    """The most that the model may write in one message."""
    tool_extras: Literal["auto", "always", "never"] = "auto"
    """Sends `strict`, `input_examples`, `defer_loading`. `auto`: to the maker's own host, for models that know them."""
    compaction: Literal["auto", "always", "never"] = "auto"
    """The provider summarises long conversations itself. `auto`: at the maker's own address, with models that can."""
    prices: dict[Name, Price] = {}
    """Prices of models by name, in addition to and above the ones that the daemon knows."""


class Turns(Section):
    """Bounds of every turn; a client may ask for less."""

    max_requests: Annotated[int, Field(ge=1, le=10_000)] = 500
    """Requests to the model before a turn ends as `max_requests`."""
    tool_concurrency: Annotated[int, Field(ge=1, le=100)] = 10
    """Calls of one message that run at once. `OSTLER_MAX_TOOL_CONCURRENCY` sets it, too."""
    tick_seconds: Annotated[float, Field(ge=1, le=3600)] = 600
    """In assistant mode: how long Sleep lasts before a `<tick>` wakes it."""
    evict_seconds: Annotated[float, Field(gt=0, le=86_400)] = 600
    """How long a session that nothing happens in stays in memory."""


class Agents(Section):
    """Bounds of the agents that work for a session."""

    max_depth: Annotated[int, Field(ge=0, le=10)] = 3
    """How many agents may stand below each other. 0: no agents."""
    max_running: Annotated[int, Field(ge=1, le=1000)] = 10
    """How many may work at once below one session; the others wait in order. One that waits does not count."""
    background_seconds: Annotated[float, Field(gt=0, le=86_400)] = 120
    """How long a call waits for its agent before that goes on in the background; not where nobody is asked."""
    stall_seconds: Annotated[float, Field(gt=0, le=86_400)] = 600
    """After how long an agent in which nothing happens is named to people and to the model, who may end it."""


class Asks(Section):
    """Questions to the people."""

    expire_seconds: Annotated[float, Field(gt=0, le=30 * 86_400)] | None = None
    """How long an ask waits before it counts as denied. Null: for ever."""


class Permissions(Section):
    """What sessions may switch on."""

    allow_bypass: bool = False
    """Allows the mode `bypassPermissions`."""
    bash_classifier: bool = False
    """A small model judges commands (mode `auto`) in other modes, too: its yes settles an ask that is still open."""
    network_reads: bool = False
    """What needs the network only to look (`docker ps`, `kubectl get`, `gh pr list`) passes, outside the sandbox."""


class Sandbox(Section):
    """Where commands run."""

    mode: Literal["auto", "on", "required", "off"] = "auto"
    """`auto`: what only reads runs in it, where it works. `on`: every command. `required`: none without it. `off`."""
    hosts: list[HostPattern] = []
    """Hosts that commands in the sandbox may reach; `*.name` is any host below it. None: no network at all."""
    skips_ask_rules: bool = False
    """A command in the workspace's sandbox is not asked about because of an ask rule."""
    model_may_disable: bool = False
    """The model may ask for a command to run outside of it, unless it is `required`; a person decides each time."""
    unix_sockets: Literal["deny", "allow"] = "deny"
    """Whether commands in the sandbox may make Unix sockets. `allow`: only those that exist outside are covered."""
    memory_mb: Annotated[int, Field(ge=0, le=1 << 24)] = 0
    """Megabytes of memory that a command in the sandbox may use, with all that it starts; 0: no limit."""
    processes: Annotated[int, Field(ge=0, le=1 << 22)] = 0
    """Processes and threads that a command in the sandbox may have at once; 0: no limit."""
    file_mb: Annotated[int, Field(ge=0, le=1 << 24)] = 0
    """Megabytes up to which a command in the sandbox may write a file; 0: no limit."""


class Tools(Section):
    """What tools may do at all."""

    background: bool = True
    """Commands may go on as background tasks. `OSTLER_DISABLE_BACKGROUND_TASKS` switches that off, too."""
    shell_snapshot: bool = True
    """The person's profile is sourced once, for the variables, functions and aliases of commands."""
    monitor: bool = True
    """There is the tool Monitor, which needs background tasks."""
    glob_files: Annotated[int, Field(ge=1, le=10_000)] = 100
    """How many files Glob lists at most."""
    read_tokens: Annotated[int, Field(ge=1_000, le=1_000_000)] = 25_000
    """How many tokens of text one Read may show, at four bytes each; more is an error that says how to read less."""
    defer: Literal["auto", "always", "never"] = "auto"
    """Leaves schemas out of the prompt until the model looks for them. `auto`: where they exceed 5,000 tokens."""


def _check_web_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError("it is no address that begins with http:// or https://")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("it is an address without name, password, query and fragment")
    return text


WebAddress = Annotated[str, Field(min_length=8, max_length=500), AfterValidator(_check_web_address)]


class SearchSite(Section):
    """Where a search provider is reached."""

    url: WebAddress | None = None
    """The address of its API, with `searxng` that of your own server; it may be private. Null: the usual one."""


class Mcp(Section):
    """MCP servers."""

    start_wait_ms: Annotated[int, Field(ge=0, le=60_000)] | None = None
    """How long the first turn of a session waits for its servers. Null: 500 where a chat is attached, else 5,000."""


class Web(Section):
    """What tools may read of the web, and who searches it."""

    summarise_over: Annotated[int, Field(ge=1_000, le=1_000_000)] = 20_000
    """The small model reads a page with more characters, and answers the question; a shorter one is given whole."""
    allow_private: list[Network] = []
    """Addresses outside the public internet that may be fetched from, as `10.1.2.3` or `10.0.0.0/8`."""
    search: Literal["auto", "api", "searxng", "brave", "tavily", "exa", "off"] = "auto"
    """Who searches for WebSearch. `auto`: the API of the model, where it is known to search; `api`: known or not."""
    searxng: SearchSite = SearchSite.model_construct()
    brave: SearchSite = SearchSite.model_construct()
    tavily: SearchSite = SearchSite.model_construct()
    exa: SearchSite = SearchSite.model_construct()


class Results(Section):
    """How much of what tools give the model is shown; what is longer is kept whole, and shown in part."""

    max_chars: dict[Name, Annotated[int, Field(ge=4000, le=1_000_000)]] = {}
    """Characters of one result, by the name of its tool, above which it is kept. A tool that bounds itself has none."""
    per_message_chars: Annotated[int, Field(ge=10_000, le=10_000_000)] = 200_000
    """Characters of all results of one message, above which the largest of them are kept."""


class Context(Section):
    """How full a model's window may become before a conversation is compacted."""

    compact_at: Annotated[float, Field(ge=0.1, le=1)] = 0.9
    """The share of the window, less the room for an answer, above which old results are cleared, or all summarised."""
    window: Annotated[int, Field(ge=4_000, le=100_000_000)] | None = None
    """Tokens that the window holds, in the place of what the daemon knows of a model; 200,000 where it knows none."""


class Terminal(Section):
    """How chats on a terminal look; each reads it when it begins."""

    theme: Literal["auto", "ansi", "dark", "light", "colour-blind"] = "auto"
    """The colours. `auto`: as the terminal says of its background, else the sixteen of its own palette."""
    vi: bool = False
    """Keys of vi in the line that is typed, in the place of those of Emacs."""
    screen_reader: bool = False
    """Lines that are only ever added, and nothing that is drawn again, for terminals that are read aloud."""


class Retention(Section):
    """How long things are kept that are not part of a session's history."""

    events_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Lines of the log. A reader that comes back later gets `stream.reset`."""
    clients_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Clients that introduced themselves and were not seen since."""


class Logging(Section):
    """The daemon's own log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important lines that are written."""
    format: Literal["json", "text"] = "text"
    """Lines for people (`text`), or one JSON object a line (`json`)."""
    max_bytes: Annotated[int, Field(ge=65_536, le=1_073_741_824)] = 10 * 1024 * 1024
    """A log file that grows past this is moved to `.1`, and that one to `.2`."""


class Config(Section):
    """All of `config.toml`."""

    # model_construct: a section's defaults need no validation, for which each section's validator would be built.
    model: Model = Model.model_construct()
    listen: Listen = Listen.model_construct()
    limits: Limits = Limits.model_construct()
    turns: Turns = Turns.model_construct()
    agents: Agents = Agents.model_construct()
    asks: Asks = Asks.model_construct()
    permissions: Permissions = Permissions.model_construct()
    sandbox: Sandbox = Sandbox.model_construct()
    tools: Tools = Tools.model_construct()
    mcp: Mcp = Mcp.model_construct()
    web: Web = Web.model_construct()
    results: Results = Results.model_construct()
    context: Context = Context.model_construct()
    terminal: Terminal = Terminal.model_construct()
    retention: Retention = Retention.model_construct()
    log: Logging = Logging.model_construct()
    todos: Literal["v1", "v2"] = "v2"
    """Tools of the work list: `v2`, for one item at a time (TaskCreate …); `v1`, for all at once (TodoWrite)."""
    assistant: bool = False
    """Assistant mode, for sessions that stay open all day: commands are waited for 15 s, and Sleep wakes by ticks."""


class ConfigGet(Params):
    """Which setting."""

    key: Name | None = None
    """A dotted name like `listen.port`. Null: everything."""


class ConfigValue(Shape):
    """A setting as it holds now."""

    key: str | None
    """The name asked for; null for everything."""
    value: Any
    """What holds now: a value, or an object for a section."""
    source: str
    """Where it comes from: `default`, `file`, `environment` or `flag`; `mixed` for a section."""
    path: str
    """The file that `config/set` writes."""


class ConfigSet(Params):
    """A setting, and what it shall be."""

    key: Name
    """A dotted name like `listen.port`."""
    value: Any = None
    """Null takes the setting out of the file."""


class ConfigChange(Shape):
    """A setting as it was and as it is."""

    key: str
    """The dotted name."""
    value: Any
    """What it is now."""
    previous: Any
    """What it was before."""
    applies: Literal["now", "restart"]
    """`now`, or only after a `restart`."""
