"""Binds every method of the protocol to its handler, and provides what the method's `needs` says."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from ostler.protocol import methods as table
from ostler.protocol.errors import CallNotFound, NoTurnRunning, TurnNotFound
from ostler.protocol.ids import CallId, SessionId, TurnId
from ostler.protocol.methods import METHODS, Method
from ostler.protocol.shapes import Turn
from ostler.protocol.wire import Params, Shape
from ostler.server.api.agents import AgentMethods
from ostler.server.api.asks import AskMethods
from ostler.server.api.clients import ClientMethods
from ostler.server.api.config import ConfigMethods
from ostler.server.api.context.memory import MemoryMethods
from ostler.server.api.context.window import ContextMethods
from ostler.server.api.discovery.mcp import McpMethods
from ostler.server.api.discovery.prompt import PromptMethods
from ostler.server.api.discovery.skills import SkillMethods
from ostler.server.api.exports.export import export_whole
from ostler.server.api.exports.session_diff import diff_session
from ostler.server.api.files.handlers import FileMethods
from ostler.server.api.hooks import HookMethods
from ostler.server.api.providers.auth import AuthMethods
from ostler.server.api.providers.models import ModelMethods
from ostler.server.api.results import ResultMethods
from ostler.server.api.rules import RuleMethods
from ostler.server.api.server import ServerMethods
from ostler.server.api.sessions import SessionMethods
from ostler.server.api.tasks import TaskMethods
from ostler.server.api.todos import TodoMethods
from ostler.server.api.tools import ToolMethods
from ostler.server.api.trust import TrustMethods
from ostler.server.api.turns import TurnMethods
from ostler.server.clients.presence import Presence
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.engine import Engine
from ostler.server.events.event_log import EventLog
from ostler.server.rpc.dispatcher import Caller, Handlers
from ostler.storage.repositories.clients import ClientRecord

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Shape)


@dataclass(frozen=True, slots=True)
class HandlerGroups:
    """The handlers of all methods, one object a noun."""

    server: ServerMethods
    sessions: SessionMethods
    turns: TurnMethods
    asks: AskMethods
    rules: RuleMethods
    prompts: PromptMethods
    skills: SkillMethods
    mcp: McpMethods
    hooks: HookMethods
    models: ModelMethods
    auth: AuthMethods
    trust: TrustMethods
    tools: ToolMethods
    files: FileMethods
    tasks: TaskMethods
    agents: AgentMethods
    todos: TodoMethods
    results: ResultMethods
    clients: ClientMethods
    context: ContextMethods
    memory: MemoryMethods
    config: ConfigMethods


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds handlers to methods; each gets what the table says that its method needs, and no handler fetches it."""

    log: EventLog
    engine: Engine
    presence: Presence
    handlers: Handlers = field(default_factory=Handlers)

    def bind(self, method: Method[P, R], handler: Callable[[P], Awaitable[R]]) -> None:
        """A handler that is given nothing beside the params."""
        assert method.needs in {"nothing", "recovered", "settled"}, f"{method.name} needs its {method.needs}"

        async def handle(params: P, caller: Caller) -> R:
            return await handler(params)

        async def handle_recovered(params: P, caller: Caller) -> R:
            await self.engine.recovery.wait_for_scan()
            return await handler(params)

        async def handle_settled(params: P, caller: Caller) -> R:
            # Whatever touches a session that a crash interrupted waits until the session is recovered.
            if (session_id := await self._find_session(params)) is not None:
                await self.engine.wait_until_settled(session_id)
            return await handler(params)

        match method.needs:
            case "settled":
                self.handlers.bind(method, handle_settled)
            case "recovered":
                self.handlers.bind(method, handle_recovered)
            case _:
                self.handlers.bind(method, handle)

    def bind_owner(self, method: Method[P, R], handler: Callable[[P, SessionActor], Awaitable[R]]) -> None:
        """A handler that is given the owner of the session."""
        assert method.needs == "owner", f"{method.name} needs {method.needs}, and not the owner of a session"

        async def handle(params: P, caller: Caller) -> R:
            session_id = await self._find_session(params)
            assert session_id is not None
            return await handler(params, await self._get_settled(session_id))

        self.handlers.bind(method, handle)

    def bind_turn(self, method: Method[P, R], handler: Callable[[P, SessionActor, Turn], Awaitable[R]]) -> None:
        """A handler that is given a turn, and the owner of its session."""
        assert method.needs == "turn", f"{method.name} needs {method.needs}, and no turn"

        async def handle(params: Any, caller: Caller) -> R:
            turn = await self._find_turn(params.turn_id)
            return await handler(params, await self.engine.get_actor(turn.session_id), turn)

        self.handlers.bind(method, handle)

    def bind_client(self, method: Method[P, R], handler: Callable[[P, ClientRecord | None], Awaitable[R]]) -> None:
        """A handler that is given the client that calls."""
        assert method.needs == "client", f"{method.name} needs {method.needs}, and no client"

        async def handle(params: P, caller: Caller) -> R:
            return await handler(params, await self.presence.find_client(caller.client_id))

        self.handlers.bind(method, handle)

    async def _get_settled(self, session_id: SessionId) -> SessionActor:
        await self.engine.wait_until_settled(session_id)
        return await self.engine.get_actor(session_id)

    async def _find_session(self, params: Any) -> SessionId | None:
        """The session that the params name: itself, by a turn or by a call; None where they need not name one."""
        match params:
            case object(session_id=session_id):
                return SessionId(session_id) if session_id is not None else None
            case object(turn_id=turn_id):
                return (await self._find_turn(turn_id)).session_id
            case object(call_id=call_id):
                return await self._find_session_of_call(call_id)
            case _:
                raise AssertionError(f"{type(params).__name__} names no session")

    async def _find_turn(self, turn_id: TurnId) -> Turn:
        turn = await self.log.read(lambda snapshot: snapshot.turns.find(turn_id))
        if turn is None:
            raise TurnNotFound(turn_id)
        return turn

    async def _find_session_of_call(self, call_id: CallId) -> SessionId:
        """The session in which a call runs or is queued."""
        call = await self.log.read(lambda snapshot: snapshot.calls.find(call_id))
        if call is None:
            raise CallNotFound(call_id)
        if call.status == "completed":
            raise NoTurnRunning(f"The call {call_id} is over already.", call_id=call_id)
        return call.session_id


def bind_methods(binder: Binder, api: HandlerGroups) -> Handlers:  # noqa: PLR0915 - a table, a line a method
    bind, bind_owner, bind_turn, bind_client = binder.bind, binder.bind_owner, binder.bind_turn, binder.bind_client
    bind(table.INITIALIZE, api.server.initialize)
    bind(table.DISCOVER, api.server.discover)
    bind(table.SERVER_INFO, api.server.info)
    bind(table.SERVER_STATS, api.server.stats)
    bind(table.SERVER_SHUTDOWN, api.server.shutdown)
    bind(table.SESSION_CREATE, api.sessions.create)
    bind(table.SESSION_LIST, api.sessions.list)
    bind(table.SESSION_GET, api.sessions.get)
    bind(table.SESSION_UPDATE, api.sessions.update)
    bind(table.SESSION_ARCHIVE, api.sessions.archive)
    bind(table.SESSION_DELETE, api.sessions.delete)
    bind(table.SESSION_MESSAGES, api.sessions.messages)
    bind(table.SESSION_FORK, api.sessions.fork)
    bind(table.SESSION_EXPORT, partial(export_whole, binder.log))
    bind_owner(table.SESSION_CONTEXT, api.context.context)
    bind_owner(table.SESSION_COMPACT, api.context.compact)
    bind_owner(table.MEMORY_ADD, api.memory.add)
    bind_owner(table.MEMORY_LIST, api.memory.list)
    bind(table.SESSION_USAGE, api.context.usage)
    bind(table.SESSION_DIFF, partial(diff_session, binder.log))
    bind_owner(table.TURN_START, api.turns.start)
    bind_turn(table.TURN_STEER, api.turns.steer)
    bind_turn(table.TURN_INTERRUPT, api.turns.interrupt)
    bind(table.TURN_GET, api.turns.get)
    bind(table.TURN_LIST, api.turns.list)
    bind(table.TURN_WAIT, api.turns.wait)
    bind(table.RUN, api.turns.run)
    bind(table.ASK_LIST, api.asks.list)
    bind(table.ASK_GET, api.asks.get)
    bind_client(table.ASK_RESOLVE, api.asks.resolve)
    bind_owner(table.RULE_LIST, api.rules.list)
    bind_owner(table.RULE_ADD, api.rules.add)
    bind_owner(table.RULE_REMOVE, api.rules.remove)
    bind_owner(table.RULE_EXPLAIN, api.rules.explain)
    bind_owner(table.SESSION_PROMPT, api.prompts.prompt)
    bind_owner(table.SKILL_LIST, api.skills.list)
    bind(table.MCP_LIST, api.mcp.list)
    bind_owner(table.MCP_RECONNECT, api.mcp.reconnect)
    bind(table.MCP_ADD, api.mcp.add)
    bind(table.MCP_REMOVE, api.mcp.remove)
    bind_owner(table.HOOK_LIST, api.hooks.list)
    bind(table.MODEL_LIST, api.models.list)
    bind(table.AUTH_SET, api.auth.set)
    bind(table.AUTH_STATUS, api.auth.status)
    bind(table.AUTH_REMOVE, api.auth.remove)
    bind(table.TRUST_LIST, api.trust.list)
    bind_client(table.TRUST_GRANT, api.trust.grant)
    bind(table.TRUST_REVOKE, api.trust.revoke)
    bind(table.TOOL_LIST, api.tools.list)
    bind_owner(table.TOOL_CANCEL, api.tools.cancel)
    bind_owner(table.TOOL_BACKGROUND, api.tools.background)
    bind_owner(table.FILE_SEARCH, api.files.search)
    bind_owner(table.FILE_READ, api.files.read)
    bind(table.TASK_LIST, api.tasks.list)
    bind(table.TASK_GET, api.tasks.get)
    bind(table.TASK_OUTPUT, api.tasks.output)
    bind(table.TASK_WAIT, api.tasks.wait)
    bind(table.TASK_STOP, api.tasks.stop)
    bind_owner(table.AGENT_LIST, api.agents.list)
    bind_owner(table.TODO_LIST, api.todos.list)
    bind_owner(table.TODO_CREATE, api.todos.create)
    bind_owner(table.TODO_UPDATE, api.todos.update)
    bind_owner(table.TODO_DELETE, api.todos.delete)
    bind(table.RESULT_READ, api.results.read)
    bind(table.RESULT_SEARCH, api.results.search)
    bind(table.CLIENT_LIST, api.clients.list)
    bind_client(table.CLIENT_RESPOND, api.clients.respond)
    bind(table.CONFIG_GET, api.config.get)
    bind(table.CONFIG_SET, api.config.set)
    unbound = set(METHODS) - set(binder.handlers)
    assert not unbound, f"methods without a handler: {unbound}"
    return binder.handlers
