"""The handlers of the ask methods: list, get, resolve."""

from dataclasses import dataclass

from ostler.protocol.ask import Allow, Answer, Approve, AskList, AskPage, AskRef, AskResolve, TrustFolder
from ostler.protocol.errors import AskNotFound, Conflict, InvalidParams
from ostler.protocol.ids import AskId, Cursor
from ostler.protocol.methods import ASK_LIST
from ostler.protocol.shapes import Ask
from ostler.server.api.trust import apply_trust_change
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.asks.asks import (
    TurnAsks,
    build_resolved_error,
    check_answer,
    find_remembered_rule,
    get_changed_input,
)
from ostler.server.engine.asks.people import check_approval
from ostler.server.engine.asks.trust import describe_project_acts
from ostler.server.engine.calls.parse_input import BadInput, parse_input
from ostler.server.engine.engine import Engine
from ostler.server.engine.journal.asks import Settlement
from ostler.server.engine.rule_changes import RememberedRuleWriter
from ostler.server.rpc.paging import make_page_token, parse_page_token
from ostler.server.settings import Settings
from ostler.server.settings.trust import build_trust_record
from ostler.storage import Snapshot
from ostler.storage.repositories import asks
from ostler.storage.repositories.clients import ClientRecord


@dataclass(frozen=True, slots=True)
class AskMethods:
    engine: Engine

    async def list(self, params: AskList) -> AskPage:
        after = parse_page_token(ASK_LIST.name, params, params.page, (int,))

        def read_rows(snapshot: Snapshot) -> asks.Page:
            root, members = None, None
            if params.session_id is not None:
                record = snapshot.sessions.get(params.session_id)
                root = record.root_id
                if record.id != root:
                    members = [member.id for member in snapshot.sessions.list_family(record.id)]
            start = Cursor(after[0]) if after else None
            return snapshot.asks.list_page(root, members, params.status, start, params.limit)

        page = await self.engine.log.read(read_rows)
        token = make_page_token(ASK_LIST.name, params, [page.last]) if page.last is not None else None
        return AskPage(asks=page.asks, next=token)

    async def get(self, params: AskRef) -> Ask:
        return await self._find_ask(params.ask_id)

    async def resolve(self, params: AskResolve, client: ClientRecord | None) -> Ask:
        """The first answer wins; a second one gets an error that says who was first."""
        ask = await self._find_ask(params.ask_id)
        if ask.status != "open":
            raise build_resolved_error(ask)
        check_answer(ask, params.answer)
        # Loads the session where it was evicted, so that its turn can go on with the answer.
        actor = await self.engine.get_actor(ask.session_id)
        run = actor.run
        if run is None or actor.find_open_ask(ask.id) is None:
            raise build_resolved_error(await self._find_ask(ask.id))
        if isinstance(params.answer, Allow):
            _check_changed_input(actor, ask, params.answer)
        if isinstance(params.answer, Approve):
            check_approval(params.answer, actor.live.resolve_mode)
        settled = await self._settle(actor, run.asks, ask, params.answer, client)
        if settled.record is not None:
            self.engine.replace_record(settled.record)
        if isinstance(params.answer, TrustFolder):
            await apply_trust_change(self.engine, actor.live.settings)
        return settled.ask

    async def _settle(
        self, actor: SessionActor, turn_asks: TurnAsks, ask: Ask, answer: Answer, client: ClientRecord | None
    ) -> Settlement:
        by = client.id if client else None
        if isinstance(answer, TrustFolder) and not _is_about(ask, actor.live.settings):
            # A yes is about what the person was shown.
            raise Conflict("What the folder brings has changed since. Restrict it: the next turn asks again.")
        trusted = build_trust_record(actor.live.settings, by) if isinstance(answer, TrustFolder) else None
        remembered = find_remembered_rule(answer, ask)
        after_settling = None
        if remembered is not None and remembered.scope != "session":
            writer = RememberedRuleWriter(actor, remembered, by)
            await writer.check()
            after_settling = writer.write
        return await turn_asks.resolve(ask, answer, by or "somebody", trusted, _format_client(client), after_settling)

    async def _find_ask(self, ask_id: AskId) -> Ask:
        ask = await self.engine.log.read(lambda snapshot: snapshot.asks.find(ask_id))
        if ask is None:
            raise AskNotFound(ask_id)
        return ask


def _is_about(ask: Ask, settings: Settings) -> bool:
    """Whether an ask for trust is about these settings, with the scripts that they name."""
    digest = settings.project_effects.digest
    return ask.what == describe_project_acts(settings) and ask.bound_to in {None, digest}


def _format_client(client: ClientRecord | None) -> str | None:
    """The name of the client that answered, stored with the ask: the records of clients are dropped."""
    return f"{client.name} ({client.kind})" if client else None


def _check_changed_input(actor: SessionActor, ask: Ask, answer: Allow) -> None:
    """Validate a person's changed input against the schema now, while the person can still correct it."""
    changed = get_changed_input(answer)
    if changed is None or ask.call is None or actor.run is None:
        return
    tool = actor.run.toolset.find(ask.call.tool)
    if isinstance(tool, str):
        return
    try:
        parse_input(tool, changed)
    except BadInput as error:
        raise InvalidParams.of("answer.input", str(error)) from None
