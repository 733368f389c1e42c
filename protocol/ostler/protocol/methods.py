"""The one table of methods. The dispatcher, OpenRPC, the reference page and the SDK all read it."""

from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from pydantic import ConfigDict

from ostler.protocol.agent import AgentList, AgentPage
from ostler.protocol.ask import AskList, AskPage, AskRef, AskResolve
from ostler.protocol.auth import AuthRemove, AuthSet, AuthState, AuthStatus
from ostler.protocol.client import (
    ClientList,
    ClientPage,
    ClientRespond,
    ClientResponded,
    Initialize,
    Initialized,
)
from ostler.protocol.config import ConfigChange, ConfigGet, ConfigSet, ConfigValue
from ostler.protocol.context import SessionContext, SessionUsage
from ostler.protocol.diff import SessionDiff
from ostler.protocol.file import FileContent, FileRead, FileSearch, FoundFiles
from ostler.protocol.hook import HookList, HookPage
from ostler.protocol.mcp import McpAdd, McpEntryChange, McpList, McpPage, McpRef, McpRemove, McpServer
from ostler.protocol.memory import MemoryAdd, MemoryList, MemoryNote, MemoryPage
from ostler.protocol.model import ModelList, ModelPage
from ostler.protocol.prompt import SessionPrompt
from ostler.protocol.result import ResultLines, ResultPart, ResultRead, ResultSearch
from ostler.protocol.rule import Explanation, RuleAdd, RuleEntry, RuleExplain, RuleList, RulePage, RuleRemove
from ostler.protocol.server import ServerInfo, ServerStats, ShutdownStarted
from ostler.protocol.session import (
    Deleted,
    Export,
    MessagePage,
    Session,
    SessionArchive,
    SessionCompact,
    SessionCreate,
    SessionExport,
    SessionFork,
    SessionList,
    SessionMessages,
    SessionPage,
    SessionRef,
    SessionUpdate,
)
from ostler.protocol.shapes import Ask, Call, Task, Turn
from ostler.protocol.skill import SkillList, SkillPage
from ostler.protocol.task import TaskList, TaskPage, TaskPart, TaskRead, TaskRef, TaskWait
from ostler.protocol.todo import TodoCreate, TodoList, TodoPage, TodoRef, Todos, TodoUpdate
from ostler.protocol.tool import CallRef, ToolList, ToolPage
from ostler.protocol.trust import Trust, TrustFor, TrustList, TrustPage
from ostler.protocol.turn import (
    InterruptedTurn,
    Run,
    RunResult,
    TurnInterrupt,
    TurnList,
    TurnPage,
    TurnRef,
    TurnStart,
    TurnSteer,
    TurnWait,
)
from ostler.protocol.wire import Nothing, Params, Shape

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Shape)

Locks = Literal["nothing", "session", "daemon"]
Needs = Literal["nothing", "recovered", "settled", "owner", "turn", "client"]
"""What the daemon provides before a handler runs:

- `recovered`: it is known what an earlier daemon left unfinished.
- `settled`: the session that the params name, itself or by a turn, is recovered from a crash.
- `owner`: the owner of that session, which may be named by a call, too. The handler is given it.
- `turn`: the turn that the params name, and the owner of its session. The handler is given both.
- `client`: the client that calls, where it has introduced itself. The handler is given it.
"""


@dataclass(frozen=True, slots=True)
class Method(Generic[P, R]):
    """A method of the wire; its types make both ends of a call checkable."""

    name: str
    params: type[P]
    result: type[R]
    locks: Locks
    """What no other call may change meanwhile: nothing, the session in `session_id`, or the daemon."""
    summary: str
    waits: bool = False
    """It waits for something that goes on without it: closing the connection ends the waiting and nothing else."""
    socket_only: bool = False
    """It is taken over the Unix socket only, where the kernel says whose process calls."""
    needs: Needs = "nothing"


class OpenRpcDocument(Shape):
    """An OpenRPC document."""

    model_config = ConfigDict(extra="allow")

    openrpc: str
    """The version of OpenRPC that the document follows."""


INITIALIZE: Final = Method(
    "initialize",
    Initialize,
    Initialized,
    "nothing",
    "Introduce a client. Optional: a plain `curl` works without it.",
)
DISCOVER: Final = Method("rpc.discover", Nothing, OpenRpcDocument, "nothing", "This protocol as an OpenRPC document.")
SERVER_INFO: Final = Method("server/info", Nothing, ServerInfo, "nothing", "Which daemon this is.")
SERVER_STATS: Final = Method("server/stats", Nothing, ServerStats, "nothing", "How the daemon fares.")
SERVER_SHUTDOWN: Final = Method(
    "server/shutdown", Nothing, ShutdownStarted, "daemon", "Finish what runs, end the streams, and stop."
)
SESSION_CREATE: Final = Method("session/create", SessionCreate, Session, "nothing", "Create a session.")
SESSION_LIST: Final = Method("session/list", SessionList, SessionPage, "nothing", "Sessions, newest activity first.")
SESSION_GET: Final = Method(
    "session/get",
    SessionRef,
    Session,
    "nothing",
    "One session with its open asks, running turn and calls, and message in progress, consistent with its `cursor`.",
    needs="settled",
)
SESSION_UPDATE: Final = Method(
    "session/update",
    SessionUpdate,
    Session,
    "session",
    "Change the fields given; the others stay.",
    needs="settled",
)
SESSION_ARCHIVE: Final = Method(
    "session/archive",
    SessionArchive,
    Session,
    "session",
    "Put a session out of the way, or bring it back.",
    needs="settled",
)
SESSION_DELETE: Final = Method(
    "session/delete",
    SessionRef,
    Deleted,
    "session",
    "Remove a session and everything of it, its agents included.",
    needs="settled",
)
SESSION_MESSAGES: Final = Method(
    "session/messages",
    SessionMessages,
    MessagePage,
    "nothing",
    "The history, oldest first.",
    needs="settled",
)
SESSION_FORK: Final = Method(
    "session/fork",
    SessionFork,
    Session,
    "session",
    "A new session with the same history up to a message.",
    needs="settled",
)
SESSION_EXPORT: Final = Method(
    "session/export",
    SessionExport,
    Export,
    "nothing",
    "A session as one file; `GET /sessions/ID/export` streams it.",
    needs="settled",
)
SESSION_CONTEXT: Final = Method(
    "session/context",
    SessionRef,
    SessionContext,
    "nothing",
    "What fills the window of the session's model, by part.",
    needs="owner",
)
SESSION_PROMPT: Final = Method(
    "session/prompt",
    SessionRef,
    SessionPrompt,
    "nothing",
    "The system prompt and the tools of a session, by part, as they were sent or would be.",
    needs="owner",
)
SESSION_COMPACT: Final = Method(
    "session/compact",
    SessionCompact,
    Session,
    "nothing",
    "Summarise a conversation for its model; people keep all of it. Waits until that is done.",
    waits=True,
    needs="owner",
)
SESSION_USAGE: Final = Method(
    "session/usage",
    SessionRef,
    SessionUsage,
    "nothing",
    "Tokens and money of a session and its agents by model, agent and tool, today and in all.",
    needs="settled",
)
SESSION_DIFF: Final = Method(
    "session/diff",
    SessionRef,
    SessionDiff,
    "nothing",
    "The files that the session and its agents changed, as patches from before its first change to now.",
    needs="settled",
)
TURN_START: Final = Method(
    "turn/start",
    TurnStart,
    Turn,
    "session",
    "Give the agent something to do; `/events` shows what it does about it.",
    needs="owner",
)
TURN_STEER: Final = Method(
    "turn/steer",
    TurnSteer,
    Turn,
    "nothing",
    "Say something to a turn that runs; it joins at the next request.",
    needs="turn",
)
TURN_INTERRUPT: Final = Method(
    "turn/interrupt",
    TurnInterrupt,
    InterruptedTurn,
    "nothing",
    "Stop a turn, at once; `turn.ended` is the proof. One that is queued is taken out of the queue.",
    needs="turn",
)
TURN_GET: Final = Method(
    "turn/get",
    TurnRef,
    Turn,
    "nothing",
    "One turn.",
    needs="settled",
)
TURN_LIST: Final = Method(
    "turn/list",
    TurnList,
    TurnPage,
    "nothing",
    "The turns of a session, oldest first.",
    needs="settled",
)
TURN_WAIT: Final = Method(
    "turn/wait",
    TurnWait,
    Turn,
    "nothing",
    "The turn when it ends or waits for an ask, or as it is when the time is over.",
    waits=True,
    needs="settled",
)
RUN: Final = Method(
    "run",
    Run,
    RunResult,
    "nothing",
    "Start a turn, in a new session or in one that exists, and wait until it ends or waits for an ask. "
    "The turn goes on when the caller leaves.",
    waits=True,
    needs="settled",
)
ASK_LIST: Final = Method(
    "ask/list",
    AskList,
    AskPage,
    "nothing",
    "Asks, oldest first, agents' included.",
    needs="settled",
)
ASK_GET: Final = Method("ask/get", AskRef, Ask, "nothing", "One ask.")
ASK_RESOLVE: Final = Method(
    "ask/resolve",
    AskResolve,
    Ask,
    "nothing",
    "Answer an ask. The first answer wins; the second gets `ask_resolved`, with the ask in `data.ask`.",
    needs="client",
)
TOOL_LIST: Final = Method(
    "tool/list",
    ToolList,
    ToolPage,
    "nothing",
    "The tools that there are.",
    needs="settled",
)
TOOL_CANCEL: Final = Method(
    "tool/cancel",
    CallRef,
    Call,
    "nothing",
    "Stop one call; its turn goes on.",
    needs="owner",
)
TOOL_BACKGROUND: Final = Method(
    "tool/background",
    CallRef,
    Call,
    "nothing",
    "Let a running command go on as a background task; its turn goes on.",
    needs="owner",
)
FILE_SEARCH: Final = Method(
    "file/search",
    FileSearch,
    FoundFiles,
    "nothing",
    "Files of a session's folders by letters of their paths, best first: for mentions.",
    needs="owner",
)
FILE_READ: Final = Method(
    "file/read", FileRead, FileContent, "nothing", "Lines of a text file that the session may read.", needs="owner"
)
TASK_LIST: Final = Method(
    "task/list",
    TaskList,
    TaskPage,
    "nothing",
    "What runs in the background, and what did.",
    needs="settled",
)
TASK_GET: Final = Method("task/get", TaskRef, Task, "nothing", "A task as it is now.")
TASK_OUTPUT: Final = Method(
    "task/output", TaskRead, TaskPart, "nothing", "What a task has printed, while it runs and after."
)
TASK_WAIT: Final = Method(
    "task/wait",
    TaskWait,
    Task,
    "nothing",
    "A task when it is over, or as it is when the time is over.",
    waits=True,
    needs="recovered",
)
TASK_STOP: Final = Method(
    "task/stop",
    TaskRef,
    Task,
    "nothing",
    "End a task with all that it started; one that is over stays as it is.",
    needs="recovered",
)
AGENT_LIST: Final = Method(
    "agent/list",
    AgentList,
    AgentPage,
    "nothing",
    "The agents that work, or have worked, for a session, and the kinds that it may start.",
    needs="owner",
)
TODO_LIST: Final = Method(
    "todo/list",
    TodoList,
    TodoPage,
    "nothing",
    "The work list of a session.",
    needs="owner",
)
TODO_CREATE: Final = Method(
    "todo/create",
    TodoCreate,
    Todos,
    "session",
    "Add an item to a work list.",
    needs="owner",
)
TODO_UPDATE: Final = Method(
    "todo/update",
    TodoUpdate,
    Todos,
    "session",
    "Change the fields of an item that are given; the others stay.",
    needs="owner",
)
TODO_DELETE: Final = Method(
    "todo/delete",
    TodoRef,
    Todos,
    "session",
    "Take an item off a work list.",
    needs="owner",
)
MEMORY_ADD: Final = Method(
    "memory/add",
    MemoryAdd,
    MemoryNote,
    "session",
    "Keep a note for later sessions, the project's or the person's own.",
    needs="owner",
)
MEMORY_LIST: Final = Method(
    "memory/list", MemoryList, MemoryPage, "nothing", "The files of notes that a session can read.", needs="owner"
)
RESULT_READ: Final = Method(
    "result/read", ResultRead, ResultPart, "nothing", "A part of a large result; `GET /results/ID` streams all of it."
)
RESULT_SEARCH: Final = Method(
    "result/search", ResultSearch, ResultLines, "nothing", "The lines of a large result that match."
)
RULE_LIST: Final = Method(
    "rule/list",
    RuleList,
    RulePage,
    "nothing",
    "The rules of a session, and where each is from.",
    needs="owner",
)
RULE_ADD: Final = Method(
    "rule/add",
    RuleAdd,
    RuleEntry,
    "session",
    "Remember a rule, in the session or in settings.",
    needs="owner",
)
RULE_REMOVE: Final = Method(
    "rule/remove",
    RuleRemove,
    RuleEntry,
    "session",
    "Forget a rule.",
    needs="owner",
)
RULE_EXPLAIN: Final = Method(
    "rule/explain",
    RuleExplain,
    Explanation,
    "nothing",
    "What would be done with a call now, without doing it.",
    needs="owner",
)
SKILL_LIST: Final = Method(
    "skill/list",
    SkillList,
    SkillPage,
    "nothing",
    "The skills of a session: each is taken up by input that begins with `/NAME`.",
    needs="owner",
)
MCP_LIST: Final = Method(
    "mcp/list",
    McpList,
    McpPage,
    "nothing",
    "The MCP servers of a session, and how each is; this starts nothing.",
)
MCP_RECONNECT: Final = Method(
    "mcp/reconnect",
    McpRef,
    McpServer,
    "nothing",
    "Close the connection to an MCP server, start it anew, and wait for it.",
    waits=True,
    needs="owner",
)
MCP_ADD: Final = Method(
    "mcp/add",
    McpAdd,
    McpEntryChange,
    "nothing",
    "Write the entry of an MCP server; sessions have it with their next turn, a project's when it is trusted.",
)
MCP_REMOVE: Final = Method(
    "mcp/remove",
    McpRemove,
    McpEntryChange,
    "nothing",
    "Take the entry of an MCP server out of its file; it ends with the next turn of each session.",
)
HOOK_LIST: Final = Method(
    "hook/list",
    HookList,
    HookPage,
    "nothing",
    "The hooks of a session, and whose each is.",
    needs="owner",
)
MODEL_LIST: Final = Method(
    "model/list",
    ModelList,
    ModelPage,
    "nothing",
    "The models of the provider, as it lists them itself; where it does not, those that the daemon knows.",
)
AUTH_SET: Final = Method(
    "auth/set",
    AuthSet,
    AuthState,
    "daemon",
    "Keep a key to a provider. The next request to the provider uses it, without a restart.",
    socket_only=True,
)
AUTH_STATUS: Final = Method(
    "auth/status",
    AuthStatus,
    AuthState,
    "nothing",
    "Which providers there is a key for, and where it is from; never the key.",
    socket_only=True,
)
AUTH_REMOVE: Final = Method(
    "auth/remove", AuthRemove, AuthState, "daemon", "Forget a key that was kept.", socket_only=True
)
TRUST_LIST: Final = Method("trust/list", TrustList, TrustPage, "nothing", "The folders that were trusted.")
TRUST_GRANT: Final = Method(
    "trust/grant",
    TrustFor,
    Trust,
    "nothing",
    "Trust what a folder brings now.",
    needs="client",
)
TRUST_REVOKE: Final = Method("trust/revoke", TrustFor, Trust, "nothing", "Trust a folder no longer.")
CLIENT_LIST: Final = Method(
    "client/list",
    ClientList,
    ClientPage,
    "nothing",
    "Who is attached.",
    needs="settled",
)
CLIENT_RESPOND: Final = Method(
    "client/respond",
    ClientRespond,
    ClientResponded,
    "nothing",
    "Answer a `client.call`, as the client that it went to. The first answer counts.",
    needs="client",
)
CONFIG_GET: Final = Method("config/get", ConfigGet, ConfigValue, "nothing", "A setting of the daemon, or all.")
CONFIG_SET: Final = Method("config/set", ConfigSet, ConfigChange, "daemon", "Change a setting in `config.toml`.")

METHODS: Final[dict[str, Method[Any, Any]]] = {
    method.name: method
    for method in (
        INITIALIZE,
        DISCOVER,
        SERVER_INFO,
        SERVER_STATS,
        SERVER_SHUTDOWN,
        SESSION_CREATE,
        SESSION_LIST,
        SESSION_GET,
        SESSION_UPDATE,
        SESSION_ARCHIVE,
        SESSION_DELETE,
        SESSION_MESSAGES,
        SESSION_FORK,
        SESSION_EXPORT,
        SESSION_CONTEXT,
        SESSION_PROMPT,
        SESSION_COMPACT,
        SESSION_USAGE,
        SESSION_DIFF,
        TURN_START,
        TURN_STEER,
        TURN_INTERRUPT,
        TURN_GET,
        TURN_LIST,
        TURN_WAIT,
        RUN,
        ASK_LIST,
        ASK_GET,
        ASK_RESOLVE,
        TOOL_LIST,
        TOOL_CANCEL,
        TOOL_BACKGROUND,
        FILE_SEARCH,
        FILE_READ,
        TASK_LIST,
        TASK_GET,
        TASK_OUTPUT,
        TASK_WAIT,
        TASK_STOP,
        AGENT_LIST,
        TODO_LIST,
        TODO_CREATE,
        TODO_UPDATE,
        TODO_DELETE,
        MEMORY_ADD,
        MEMORY_LIST,
        RESULT_READ,
        RESULT_SEARCH,
        RULE_LIST,
        RULE_ADD,
        RULE_REMOVE,
        RULE_EXPLAIN,
        SKILL_LIST,
        MCP_LIST,
        MCP_RECONNECT,
        MCP_ADD,
        MCP_REMOVE,
        HOOK_LIST,
        MODEL_LIST,
        AUTH_SET,
        AUTH_STATUS,
        AUTH_REMOVE,
        TRUST_LIST,
        TRUST_GRANT,
        TRUST_REVOKE,
        CLIENT_LIST,
        CLIENT_RESPOND,
        CONFIG_GET,
        CONFIG_SET,
    )
}
