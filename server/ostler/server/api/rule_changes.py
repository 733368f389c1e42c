"""Rules that people add and take away: in the session, or in a settings file."""

from dataclasses import dataclass, replace
from typing import Any

from ostler.protocol.errors import Conflict, InvalidParams
from ostler.protocol.events import Notice
from ostler.protocol.ids import ClientId
from ostler.protocol.rule import Behavior, RuleEntry, RuleScope
from ostler.protocol.shapes import Ask
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.asks.asks import Remembered
from ostler.server.engine.journal.asks import Settled
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.settings_loader import Arranger
from ostler.server.settings import NEED_TRUST, CannotWrite, Settings, add_rule, check_addition, destination, remove_rule
from ostler.server.settings.trust import brings_only, is_trusted, trusting
from ostler.storage import Tx
from ostler.storage.repositories import sessions, trust
from ostler.storage.repositories.sessions import SessionRecord
from ostler.tools.permissions import BadRule, parse_rule
from ostler.tools.threads import change_in_thread, read_in_thread


@dataclass(frozen=True, slots=True)
class RuleChange:
    behavior: Behavior
    rule: str
    scope: RuleScope
    expires_at: str | None = None


def check_rule(text: str, field: str = "rule") -> str:
    """The rule in its one spelling. Raises InvalidParams."""
    try:
        return parse_rule(text).text
    except BadRule as error:
        raise InvalidParams.of(field, error.message) from None


async def remember(actor: SessionActor, change: RuleChange, by: ClientId | None = None) -> RuleEntry:
    """Add a rule where it belongs; it counts at once. Raises Conflict where it would not, or cannot be written."""
    live = actor.live
    if change.scope == "session":
        actor.replace_record(await _change_session(live, lambda options: _with(options, change)))
        return _entry(change, None)
    file = await _write(live, actor.arranger, change, by, add=True)
    return _entry(change, file)


async def forget(actor: SessionActor, change: RuleChange, by: ClientId | None = None) -> RuleEntry:
    """Take a rule away. Raises InvalidParams where it is not there."""
    live = actor.live
    if change.scope == "session":
        if change.rule not in ((live.record.options.get("rules") or {}).get(change.behavior) or ()):
            raise InvalidParams.of("rule", f"{change.rule!r} is no {change.behavior} rule of this session")
        actor.replace_record(await _change_session(live, lambda options: _without(options, change)))
        return _entry(change, None)
    file = await _write(live, actor.arranger, change, by, add=False)
    return _entry(change, file)


def _entry(change: RuleChange, file: str | None) -> RuleEntry:
    return RuleEntry(
        behavior=change.behavior, rule=change.rule, source=change.scope, file=file, expires_at=change.expires_at
    )


async def _write(live: LiveSession, arranger: Arranger, change: RuleChange, by: ClientId | None, *, add: bool) -> str:
    """Into, or out of, our own file of the scope. What the person just wrote does not make them be asked for trust."""
    assert change.scope != "session"
    before = await live.rooms.settings.of(live.record.cwd)
    trusted = await _trusts(live, before)
    if add and _needs_trust(change) and not trusted:
        raise _would_not_count(change, before)
    to = destination(change.scope, live.record.cwd, live.rooms.settings.places, live.rooms.umask)
    try:
        if add:
            await change_in_thread(add_rule, to, change.behavior, change.rule, change.expires_at)
        elif not await change_in_thread(remove_rule, to, change.behavior, change.rule):
            raise InvalidParams.of("rule", f"{change.rule!r} is no {change.behavior} rule in {to.file}")
    except CannotWrite as error:
        raise Conflict(f"The rule was not written: {error}", file=to.file) from None
    settings = await live.rooms.settings.of(live.record.cwd)
    if trusted and settings.project_acts.lines and brings_only(settings, before, change.rule.strip() if add else None):

        def grant(tx: Tx) -> None:
            trust.grant(tx.connection, trusting(settings, by))

        await live.journal.write(grant)
    await arranger.arrange(live)
    return to.file


async def check_counts(live: LiveSession, change: RuleChange) -> None:
    """Raises Conflict where a rule would be written and not count."""
    settings = await live.rooms.settings.of(live.record.cwd)
    if _needs_trust(change) and not await _trusts(live, settings):
        raise _would_not_count(change, settings)


def _needs_trust(change: RuleChange) -> bool:
    return change.behavior == "allow" and change.scope in NEED_TRUST


async def _trusts(live: LiveSession, settings: Settings) -> bool:
    """As the files are now: what somebody has put there since the turn began is nothing that a person has seen."""
    return await live.journal.log.read(lambda connection: is_trusted(connection, settings))


def _would_not_count(change: RuleChange, settings: Settings) -> Conflict:
    return Conflict(
        f"The rule {change.rule} was not written: {settings.folder} is not trusted, so that it would not count there. "
        "Trust what the folder brings first (trust/grant), or remember the rule for the session or for the user.",
        folder=settings.folder,
    )


async def _change_session(live: LiveSession, change: Any) -> SessionRecord:
    def work(tx: Tx) -> SessionRecord:
        record = sessions.get(tx.connection, live.record.id)
        record = replace(record, options=change(record.options))
        sessions.put(tx.connection, record)
        return record

    return await live.journal.write(work)


def _with(options: dict[str, Any], change: RuleChange) -> dict[str, Any]:
    kept = _without(options, change)
    rules, expires = kept["rules"], kept["rule_expires"]
    rules = {**rules, change.behavior: [*(rules.get(change.behavior) or ()), change.rule]}
    if change.expires_at is not None:
        expires = {**expires, change.rule: change.expires_at}
    return {**kept, "rules": rules, "rule_expires": expires}


def _without(options: dict[str, Any], change: RuleChange) -> dict[str, Any]:
    rules = dict(options.get("rules") or {})
    rules[change.behavior] = [text for text in rules.get(change.behavior) or () if text != change.rule]
    expires = {text: time for text, time in (options.get("rule_expires") or {}).items() if text != change.rule}
    return {**options, "rules": rules, "rule_expires": expires}


@dataclass(frozen=True, slots=True)
class BroughtRule:
    """Written when the answer has won, and never before: of two answers at once, the loser leaves nothing behind."""

    actor: SessionActor
    rule: Remembered
    by: ClientId | None

    async def check(self) -> None:
        """Before the answer is taken: one whose rule cannot be written is refused, while the person can still choose.

        Raises Conflict.
        """
        assert self.rule.scope != "session"
        live = self.actor.live
        await check_counts(live, self._change)
        to = destination(self.rule.scope, live.record.cwd, live.rooms.settings.places, live.rooms.umask)
        try:
            await read_in_thread(check_addition, to, self.rule.behavior, self.rule.rule)
        except CannotWrite as error:
            raise Conflict(f"The rule was not written: {error}", file=to.file) from None

    async def write(self, settled: Settled) -> Settled:
        """The answer has won. Where the file does not take the rule after all, it counts for this session."""
        try:
            await remember(self.actor, self._change, self.by)
        except Conflict as error:
            return await self._for_this_session(settled, error)
        return settled

    @property
    def _change(self) -> RuleChange:
        return RuleChange(self.rule.behavior, self.rule.rule, self.rule.scope)

    async def _for_this_session(self, settled: Settled, error: Conflict) -> Settled:
        journal = self.actor.live.journal
        ask: Ask = settled.ask.model_copy(update={"answer": {**(settled.ask.answer or {}), "scope": "session"}})
        record = await journal.remember_here(ask, self.rule.behavior, self.rule.rule)
        words = f"{error.message} Your answer counts, and the rule {self.rule.rule} for this session only."
        journal.notice(ask.turn_id, Notice(level="warning", text=words))
        return replace(settled, ask=ask, record=record)
