"""The ask methods: list, get, resolve."""

import sqlite3
from dataclasses import dataclass

from ostler.protocol.ask import Allow, Answer, AskList, AskPage, AskRef, AskResolve, TrustFolder
from ostler.protocol.errors import AskNotFound, Conflict, InvalidParams
from ostler.protocol.ids import AskId
from ostler.protocol.methods import ASK_LIST
from ostler.protocol.shapes import Ask
from ostler.server.api.rule_changes import BroughtRule
from ostler.server.api.trust import trust_changed
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.asks.asks import AskDesk, already, changed_input, check_answer, rule_to_remember
from ostler.server.engine.asks.trust import shown
from ostler.server.engine.calls.parse_input import BadInput, parse_input
from ostler.server.engine.engine import Engine
from ostler.server.engine.journal.asks import Settled
from ostler.server.rpc.paging import page_position, page_token
from ostler.server.settings.trust import trusting
from ostler.storage.repositories import asks, sessions
from ostler.storage.repositories.clients import ClientRecord


@dataclass(frozen=True, slots=True)
class AskMethods:
    engine: Engine

    async def list(self, params: AskList) -> AskPage:
        after = page_position(ASK_LIST.name, params, params.page, (str,))

        def look(connection: sqlite3.Connection) -> list[Ask]:
            root, members = None, None
            if params.session_id is not None:
                record = sessions.get(connection, params.session_id)
                root = record.root_id
                if record.id != root:
                    members = [member.id for member in sessions.family(connection, record.id)]
            start = after[0] if after else ""
            return asks.page(connection, root, members, params.status, start, params.limit + 1)

        found = await self.engine.log.read(look)
        page = found[: params.limit]
        token = page_token(ASK_LIST.name, params, [page[-1].id]) if len(found) > params.limit else None
        return AskPage(asks=page, next=token)

    async def get(self, params: AskRef) -> Ask:
        return await self._ask(params.ask_id)

    async def resolve(self, params: AskResolve, client: ClientRecord | None) -> Ask:
        """The first answer wins; who is second is told who was first."""
        ask = await self._ask(params.ask_id)
        if ask.status != "open":
            raise already(ask)
        check_answer(ask, params.answer)
        # Loads the session where it was evicted, so that the answer has somebody to go on with it.
        actor = await self.engine.actor(ask.session_id)
        run = actor.run
        if run is None or actor.open_ask(ask.id) is None:
            raise already(await self._ask(ask.id))
        if isinstance(params.answer, Allow):
            _check_changed_input(actor, ask, params.answer)
        settled = await self._settled(actor, run.asks, ask, params.answer, client)
        if settled.record is not None:
            actor.replace_record(settled.record)
        if isinstance(params.answer, TrustFolder):
            await trust_changed(self.engine, actor.live.settings)
        return settled.ask

    async def _settled(
        self, actor: SessionActor, desk: AskDesk, ask: Ask, answer: Answer, client: ClientRecord | None
    ) -> Settled:
        by = client.id if client else None
        if isinstance(answer, TrustFolder) and ask.what != shown(actor.live.settings):
            # A yes is about what the person was shown.
            raise Conflict("What the folder brings has changed since. Restrict it: the next turn asks again.")
        trusted = trusting(actor.live.settings, by) if isinstance(answer, TrustFolder) else None
        remembered = rule_to_remember(answer, ask)
        then = None
        if remembered is not None and remembered.scope != "session":
            brought = BroughtRule(actor, remembered, by)
            await brought.check()
            then = brought.write
        return await desk.resolve(ask, answer, by or "somebody", trusted, _name(client), then)

    async def _ask(self, ask_id: AskId) -> Ask:
        ask = await self.engine.log.read(lambda connection: asks.find(connection, ask_id))
        if ask is None:
            raise AskNotFound(ask_id)
        return ask


def _name(client: ClientRecord | None) -> str | None:
    """What people call whoever answered, kept with the ask: clients are forgotten."""
    return f"{client.name} ({client.kind})" if client else None


def _check_changed_input(actor: SessionActor, ask: Ask, answer: Allow) -> None:
    """A person's input is held against the schema while the person can still mend it."""
    changed = changed_input(answer)
    if changed is None or ask.call is None or actor.run is None:
        return
    tool = actor.run.toolset.find(ask.call.tool)
    if isinstance(tool, str):
        return
    try:
        parse_input(tool, changed)
    except BadInput as error:
        raise InvalidParams.of("answer.input", str(error)) from None
