"""Binds every method of the protocol to its handler."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ostler.protocol import methods as table
from ostler.protocol.ask import AskResolve
from ostler.protocol.client import ClientRespond, ClientResponded
from ostler.protocol.diff import SessionDiff
from ostler.protocol.methods import METHODS, OpenRpcDocument
from ostler.protocol.session import Export, SessionExport, SessionRef
from ostler.protocol.shapes import Ask
from ostler.protocol.trust import Trust, TrustFor
from ostler.protocol.wire import Nothing, Params, Shape
from ostler.server.api.export import export_whole
from ostler.server.api.server import ServerApi
from ostler.server.api.session_diff import diff_session
from ostler.server.rpc.discovery import load_openrpc
from ostler.server.rpc.dispatcher import Caller, Handlers

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Shape)


def bind_methods(api: ServerApi) -> Handlers:  # noqa: PLR0915 - a table, a line a method
    handlers = Handlers()

    def bind(method: table.Method[P, R], handler: Callable[[P], Awaitable[R]]) -> None:
        """A handler that does not need to know which client calls."""

        async def handle(params: P, caller: Caller) -> R:
            # Whatever touches a session that a crash interrupted waits until the session is recovered.
            if (session_id := getattr(params, "session_id", None)) is not None:
                await api.engine.wait_until_settled(session_id)
            return await handler(params)

        handlers.bind(method, handle)

    async def discover(params: Nothing) -> OpenRpcDocument:
        return OpenRpcDocument.model_validate(await load_openrpc(api.address.url))

    async def export(params: SessionExport) -> Export:
        return await export_whole(api.log, params)

    async def diff(params: SessionRef) -> SessionDiff:
        return await diff_session(api.log, params)

    async def respond(params: ClientRespond, caller: Caller) -> ClientResponded:
        client = await api.presence.find_client(caller.client_id)
        return api.client_calls.respond(params, client.id if client else None)

    async def resolve(params: AskResolve, caller: Caller) -> Ask:
        return await api.asks.resolve(params, await api.presence.find_client(caller.client_id))

    async def grant(params: TrustFor, caller: Caller) -> Trust:
        client = await api.presence.find_client(caller.client_id)
        return await api.trust.grant(params, client.id if client else None)

    bind(table.INITIALIZE, api.initialize)
    bind(table.DISCOVER, discover)
    bind(table.SERVER_INFO, api.info)
    bind(table.SERVER_STATS, api.stats)
    bind(table.SERVER_SHUTDOWN, api.shutdown)
    bind(table.SESSION_CREATE, api.sessions.create)
    bind(table.SESSION_LIST, api.sessions.list)
    bind(table.SESSION_GET, api.sessions.get)
    bind(table.SESSION_UPDATE, api.sessions.update)
    bind(table.SESSION_ARCHIVE, api.sessions.archive)
    bind(table.SESSION_DELETE, api.sessions.delete)
    bind(table.SESSION_MESSAGES, api.sessions.messages)
    bind(table.SESSION_FORK, api.sessions.fork)
    bind(table.SESSION_EXPORT, export)
    bind(table.SESSION_DIFF, diff)
    bind(table.TURN_START, api.turns.start)
    bind(table.TURN_STEER, api.turns.steer)
    bind(table.TURN_INTERRUPT, api.turns.interrupt)
    bind(table.TURN_GET, api.turns.get)
    bind(table.TURN_LIST, api.turns.list)
    bind(table.TURN_WAIT, api.turns.wait)
    bind(table.RUN, api.turns.run)
    bind(table.ASK_LIST, api.asks.list)
    bind(table.ASK_GET, api.asks.get)
    handlers.bind(table.ASK_RESOLVE, resolve)
    bind(table.RULE_LIST, api.rules.list)
    bind(table.RULE_ADD, api.rules.add)
    bind(table.RULE_REMOVE, api.rules.remove)
    bind(table.RULE_EXPLAIN, api.rules.explain)
    bind(table.HOOK_LIST, api.hooks.list)
    bind(table.MODEL_LIST, api.models.list)
    bind(table.AUTH_SET, api.auth.set)
    bind(table.AUTH_STATUS, api.auth.status)
    bind(table.AUTH_REMOVE, api.auth.remove)
    bind(table.TRUST_LIST, api.trust.list)
    handlers.bind(table.TRUST_GRANT, grant)
    bind(table.TRUST_REVOKE, api.trust.revoke)
    bind(table.TOOL_LIST, api.tools.list)
    bind(table.TOOL_CANCEL, api.tools.cancel)
    bind(table.TOOL_BACKGROUND, api.tools.background)
    bind(table.TASK_LIST, api.tasks.list)
    bind(table.TASK_GET, api.tasks.get)
    bind(table.TASK_OUTPUT, api.tasks.output)
    bind(table.TASK_WAIT, api.tasks.wait)
    bind(table.TASK_STOP, api.tasks.stop)
    bind(table.RESULT_READ, api.results.read)
    bind(table.RESULT_SEARCH, api.results.search)
    bind(table.CLIENT_LIST, api.clients)
    handlers.bind(table.CLIENT_RESPOND, respond)
    bind(table.CONFIG_GET, api.config_get)
    bind(table.CONFIG_SET, api.config_set)
    unbound = set(METHODS) - set(handlers)
    assert not unbound, f"methods without a handler: {unbound}"
    return handlers
