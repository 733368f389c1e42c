"""Every method with its handler: the server's half of the method table."""

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
from ostler.server.api.server import House
from ostler.server.api.session_diff import session_diff
from ostler.server.rpc.discovery import discovery
from ostler.server.rpc.dispatcher import Caller, Handlers

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Shape)


def bind_methods(house: House) -> Handlers:  # noqa: PLR0915 - a table, a line a method
    handlers = Handlers()

    def bind(method: table.Method[P, R], handler: Callable[[P], Awaitable[R]]) -> None:
        """A handler to which it does not matter who calls."""

        async def called(params: P, caller: Caller) -> R:
            # Whatever touches a session that a crash cut short waits until that is brought in order.
            if (session_id := getattr(params, "session_id", None)) is not None:
                await house.engine.settled(session_id)
            return await handler(params)

        handlers.bind(method, called)

    async def discover(params: Nothing) -> OpenRpcDocument:
        return OpenRpcDocument.model_validate(await discovery(house.address.url))

    async def export(params: SessionExport) -> Export:
        return await export_whole(house.log, params)

    async def diff(params: SessionRef) -> SessionDiff:
        return await session_diff(house.log, params)

    async def respond(params: ClientRespond, caller: Caller) -> ClientResponded:
        client = await house.presence.known(caller.client_id)
        return house.client_calls.respond(params, client.id if client else None)

    async def resolve(params: AskResolve, caller: Caller) -> Ask:
        return await house.asks.resolve(params, await house.presence.known(caller.client_id))

    async def grant(params: TrustFor, caller: Caller) -> Trust:
        client = await house.presence.known(caller.client_id)
        return await house.trust.grant(params, client.id if client else None)

    bind(table.INITIALIZE, house.initialize)
    bind(table.DISCOVER, discover)
    bind(table.SERVER_INFO, house.info)
    bind(table.SERVER_STATS, house.stats)
    bind(table.SERVER_SHUTDOWN, house.shutdown)
    bind(table.SESSION_CREATE, house.sessions.create)
    bind(table.SESSION_LIST, house.sessions.list)
    bind(table.SESSION_GET, house.sessions.get)
    bind(table.SESSION_UPDATE, house.sessions.update)
    bind(table.SESSION_ARCHIVE, house.sessions.archive)
    bind(table.SESSION_DELETE, house.sessions.delete)
    bind(table.SESSION_MESSAGES, house.sessions.messages)
    bind(table.SESSION_FORK, house.sessions.fork)
    bind(table.SESSION_EXPORT, export)
    bind(table.SESSION_DIFF, diff)
    bind(table.TURN_START, house.turns.start)
    bind(table.TURN_STEER, house.turns.steer)
    bind(table.TURN_INTERRUPT, house.turns.interrupt)
    bind(table.TURN_GET, house.turns.get)
    bind(table.TURN_LIST, house.turns.list)
    bind(table.TURN_WAIT, house.turns.wait)
    bind(table.RUN, house.turns.run)
    bind(table.ASK_LIST, house.asks.list)
    bind(table.ASK_GET, house.asks.get)
    handlers.bind(table.ASK_RESOLVE, resolve)
    bind(table.RULE_LIST, house.rules.list)
    bind(table.RULE_ADD, house.rules.add)
    bind(table.RULE_REMOVE, house.rules.remove)
    bind(table.RULE_EXPLAIN, house.rules.explain)
    bind(table.HOOK_LIST, house.hooks.list)
    bind(table.TRUST_LIST, house.trust.list)
    handlers.bind(table.TRUST_GRANT, grant)
    bind(table.TRUST_REVOKE, house.trust.revoke)
    bind(table.TOOL_LIST, house.tools.list)
    bind(table.TOOL_CANCEL, house.tools.cancel)
    bind(table.TOOL_BACKGROUND, house.tools.background)
    bind(table.TASK_LIST, house.tasks.list)
    bind(table.TASK_GET, house.tasks.get)
    bind(table.TASK_OUTPUT, house.tasks.output)
    bind(table.TASK_WAIT, house.tasks.wait)
    bind(table.TASK_STOP, house.tasks.stop)
    bind(table.RESULT_READ, house.results.read)
    bind(table.RESULT_SEARCH, house.results.search)
    bind(table.CLIENT_LIST, house.clients)
    handlers.bind(table.CLIENT_RESPOND, respond)
    bind(table.CONFIG_GET, house.config_get)
    bind(table.CONFIG_SET, house.config_set)
    unbound = set(METHODS) - set(handlers)
    assert not unbound, f"methods without a handler: {unbound}"
    return handlers
