"""The handlers of `session/context` and `session/usage`: what fills the window, and what a session has used."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import reduce

import orjson

from ostler.protocol import times
from ostler.protocol.context import AgentUsage, ModelUsage, SessionContext, SessionUsage, ToolUsage, UsageParts
from ostler.protocol.ids import SessionId
from ostler.protocol.session import Session, SessionCompact, SessionRef
from ostler.protocol.shapes import Usage
from ostler.protocol.turn import TurnOptions
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.context.accounting import compute_threshold, measure_parts, scale_parts
from ostler.server.engine.engine import Engine
from ostler.server.engine.journal.session_view import read_session
from ostler.server.engine.session.agent_facts import find_agent_facts
from ostler.server.engine.session.usage import add_usage
from ostler.server.engine.turn.environment_updates import load_sent_facts, read_session_facts
from ostler.server.events.event_log import EventLog
from ostler.server.models.pricing import format_usd
from ostler.storage import Snapshot
from ostler.storage.repositories.calls import CallSize
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.usage import UsageRow
from ostler.tools.threads import read_in_thread
from ostler.tools.token_estimate import BYTES_PER_TOKEN, IMAGE_TOKENS

Price = Callable[[str, Usage], Decimal | None]


@dataclass(frozen=True, slots=True)
class ContextMethods:
    log: EventLog
    engine: Engine

    async def context(self, params: SessionRef, actor: SessionActor) -> SessionContext:
        live, services = actor.live, self.engine.services
        model = actor.run.settings.model if actor.run is not None else live.record.model
        settings = actor.turn_setup.build_settings(TurnOptions(input="."), None)
        facts = load_sent_facts(live) or await read_session_facts(live)
        _, prefix, state = await actor.turn_setup.build_tools_and_prompt(settings, facts)
        takes_extras = services.provider(model).takes_extras(model)
        tools = prefix.tools_with_extras if takes_extras else prefix.tools
        history = live.history
        sizes = await read_in_thread(lambda: measure_parts(state["system"], orjson.loads(tools), history.decode()))
        use = live.context.measure(prefix.count_tokens(with_extras=takes_extras), history.tokens)
        window, config = services.window(model), services.config()
        most = min(config.model.max_output_tokens, services.max_output(model))
        return SessionContext(
            session_id=live.record.id,
            model=model,
            window=window,
            compact_at=compute_threshold(window, most, config),
            used=use.tokens,
            free=max(0, window - use.tokens),
            estimated=use.estimated,
            parts=scale_parts(sizes, use.tokens),
        )

    async def compact(self, params: SessionCompact, actor: SessionActor) -> Session:
        await actor.compact(params.instructions)
        return await self.log.read(
            lambda snapshot: read_session(
                snapshot, snapshot.sessions.get(params.session_id), snapshot.events.load_head()
            )
        )

    async def usage(self, params: SessionRef) -> SessionUsage:
        midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        cost = self.engine.services.cost

        def read_rows(snapshot: Snapshot) -> SessionUsage:
            snapshot.sessions.get(params.session_id)
            family = snapshot.sessions.list_family(params.session_id)
            whole = _read_parts(snapshot, family, "", cost)
            today = _read_parts(snapshot, family, times.format_time(midnight), cost)
            return SessionUsage(session_id=params.session_id, **dict(whole), today=today)

        return await self.log.read(read_rows)


def _read_parts(snapshot: Snapshot, family: Sequence[SessionRecord], since: str, cost: Price) -> UsageParts:
    root, ids = family[0], [member.id for member in family]
    rows = snapshot.usage.list_family(root.id, since)
    sizes = snapshot.calls.measure_completed(ids, since)
    return UsageParts(
        total=_sum(row.used for row in rows),
        by_model=_group_by_model(rows),
        by_agent=_group_by_agent(rows, family),
        by_tool=_group_by_tool(sizes, root.model, cost),
    )


def _group_by_model(rows: Sequence[UsageRow]) -> list[ModelUsage]:
    by_model: dict[str, list[Usage]] = defaultdict(list)
    for row in rows:
        by_model[row.model].append(row.used)
    found = [ModelUsage(model=model, **dict(_sum(used))) for model, used in by_model.items()]
    return sorted(found, key=_rank)


def _group_by_agent(rows: Sequence[UsageRow], family: Sequence[SessionRecord]) -> list[AgentUsage]:
    by_member: dict[SessionId, list[Usage]] = defaultdict(list)
    for row in rows:
        by_member[row.session_id].append(row.used)
    found: list[AgentUsage] = []
    for member in family:
        facts = find_agent_facts(member) if member is not family[0] else None
        shown = facts.shown if facts is not None else None
        found.append(
            AgentUsage(
                agent_id=member.id,
                name=shown.name if shown else None,
                kind=shown.kind if shown else None,
                **dict(_sum(by_member[member.id])),
            )
        )
    return [found[0], *sorted(found[1:], key=_rank)]


def _group_by_tool(sizes: Iterable[CallSize], model: str, cost: Price) -> list[ToolUsage]:
    by_tool: dict[str, list[CallSize]] = defaultdict(list)
    for size in sizes:
        by_tool[size.tool].append(size)
    found: list[ToolUsage] = []
    for tool, calls in by_tool.items():
        used = Usage(
            input_tokens=sum(call.result_chars // BYTES_PER_TOKEN + call.pictures * IMAGE_TOKENS for call in calls),
            output_tokens=sum(call.input_bytes // BYTES_PER_TOKEN for call in calls),
        )
        price = cost(model, used)
        priced = used.changed(cost_usd=None if price is None else format_usd(price))
        found.append(ToolUsage(tool=tool, calls=len(calls), **dict(priced)))
    return sorted(found, key=_rank)


def _sum(used: Iterable[Usage]) -> Usage:
    return reduce(add_usage, used, Usage())


def _rank(used: Usage) -> int:
    return -(used.input_tokens + used.cache_read_tokens + used.cache_write_tokens + used.output_tokens)
