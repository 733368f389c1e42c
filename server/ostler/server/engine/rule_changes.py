"""Rules that people add and remove, in the session or in a settings file: by rule/add and rule/remove, or by the answer
to an ask (`allow_always`, `deny_always`)."""

from dataclasses import dataclass, replace
from typing import Any

from ostler.protocol.errors import Conflict, InvalidParams
from ostler.protocol.events import Notice
from ostler.protocol.ids import ClientId
from ostler.protocol.rule import Behavior, RuleEntry, RuleScope
from ostler.protocol.shapes import Ask
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.asks.asks import RememberedRule
from ostler.server.engine.journal.asks import Settlement
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.settings_loader import SettingsLoader
from ostler.server.settings import (
    NEED_TRUST,
    CannotWrite,
    Settings,
    add_rule,
    check_addition,
    remove_rule,
    resolve_destination,
)
from ostler.server.settings.trust import adds_only, build_trust_record, is_trusted
from ostler.storage import Tx
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
    """The rule in its normal form. Raises InvalidParams."""
    try:
        return parse_rule(text).text
    except BadRule as error:
        raise InvalidParams.of(field, error.message) from None


async def remember_rule(actor: SessionActor, change: RuleChange, by: ClientId | None = None) -> RuleEntry:
    """Add a rule to its scope; it takes effect at once. Raises Conflict where it would not, or cannot be written."""
    live = actor.live
    if change.scope == "session":
        live.root.record = await _change_session(live, lambda options: _add_rule_option(options, change))
        return _build_entry(change, None)
    file = await _write_rule(live, actor.settings_loader, change, by, add=True)
    return _build_entry(change, file)


async def forget_rule(actor: SessionActor, change: RuleChange, by: ClientId | None = None) -> RuleEntry:
    """Remove a rule. Raises InvalidParams where there is none."""
    live = actor.live
    if change.scope == "session":
        if change.rule not in ((live.root.record.options.get("rules") or {}).get(change.behavior) or ()):
            raise InvalidParams.of("rule", f"{change.rule!r} is no {change.behavior} rule of this session")
        live.root.record = await _change_session(live, lambda options: _remove_rule_option(options, change))
        return _build_entry(change, None)
    file = await _write_rule(live, actor.settings_loader, change, by, add=False)
    return _build_entry(change, file)


def _build_entry(change: RuleChange, file: str | None) -> RuleEntry:
    return RuleEntry(
        behavior=change.behavior, rule=change.rule, source=change.scope, file=file, expires_at=change.expires_at
    )


async def _write_rule(
    live: LiveSession, loader: SettingsLoader, change: RuleChange, by: ClientId | None, *, add: bool
) -> str:
    """Write a rule to our own settings file of the scope, or remove it there.

    Trust in the folder is kept: nobody is asked to trust what they have just written themselves.
    """
    assert change.scope != "session"
    before = await live.shared.settings.get(live.settings_folder)
    trusted = await _is_trusted_now(live, before)
    if add and _needs_trust(change) and not trusted:
        raise _build_untrusted_error(change, before)
    to = resolve_destination(change.scope, live.settings_folder, live.shared.settings.places, live.shared.umask)
    try:
        if add:
            await change_in_thread(add_rule, to, change.behavior, change.rule, change.expires_at)
        elif not await change_in_thread(remove_rule, to, change.behavior, change.rule):
            raise InvalidParams.of("rule", f"{change.rule!r} is no {change.behavior} rule in {to.file}")
    except CannotWrite as error:
        raise Conflict(f"The rule was not written: {error}", file=to.file) from None
    settings = await live.shared.settings.get(live.settings_folder)
    if trusted and settings.project_effects.lines and adds_only(settings, before, change.rule.strip() if add else None):

        def grant(tx: Tx) -> None:
            tx.trust.grant(build_trust_record(settings, by))

        await live.journal.writes.write(grant)
    await loader.load(live)
    return to.file


async def check_takes_effect(live: LiveSession, change: RuleChange) -> None:
    """Raises Conflict where a rule would be written and have no effect."""
    settings = await live.shared.settings.get(live.settings_folder)
    if _needs_trust(change) and not await _is_trusted_now(live, settings):
        raise _build_untrusted_error(change, settings)


def _needs_trust(change: RuleChange) -> bool:
    return change.behavior == "allow" and change.scope in NEED_TRUST


async def _is_trusted_now(live: LiveSession, settings: Settings) -> bool:
    """Whether the folder is trusted with its files as they are now: nobody has seen what was added during the turn."""
    return await live.journal.log.read(lambda snapshot: is_trusted(snapshot, settings))


def _build_untrusted_error(change: RuleChange, settings: Settings) -> Conflict:
    return Conflict(
        f"The rule {change.rule} was not written: {settings.folder} is not trusted, so that it would not count there. "
        "Trust what the folder brings first (trust/grant), or remember the rule for the session or for the user.",
        folder=settings.folder,
    )


async def _change_session(live: LiveSession, change: Any) -> SessionRecord:
    def work(tx: Tx) -> SessionRecord:
        record = tx.sessions.get(live.root.record.id)
        record = replace(record, options=change(record.options))
        tx.sessions.put(record)
        return record

    return await live.journal.writes.write(work)


def _add_rule_option(options: dict[str, Any], change: RuleChange) -> dict[str, Any]:
    kept = _remove_rule_option(options, change)
    rules, expires = kept["rules"], kept["rule_expires"]
    rules = {**rules, change.behavior: [*(rules.get(change.behavior) or ()), change.rule]}
    if change.expires_at is not None:
        expires = {**expires, change.rule: change.expires_at}
    return {**kept, "rules": rules, "rule_expires": expires}


def _remove_rule_option(options: dict[str, Any], change: RuleChange) -> dict[str, Any]:
    rules = dict(options.get("rules") or {})
    rules[change.behavior] = [text for text in rules.get(change.behavior) or () if text != change.rule]
    expires = {text: time for text, time in (options.get("rule_expires") or {}).items() if text != change.rule}
    return {**options, "rules": rules, "rule_expires": expires}


@dataclass(frozen=True, slots=True)
class RememberedRuleWriter:
    """Writes the rule that an answer to an ask brings.

    When the answer has won, and never before: of two answers at once, the one that loses writes nothing.
    """

    actor: SessionActor
    rule: RememberedRule
    by: ClientId | None

    async def check(self) -> None:
        """Before the answer is accepted: refuse one whose rule cannot be written, while the person can still choose.

        Raises Conflict.
        """
        assert self.rule.scope != "session"
        live = self.actor.live
        await check_takes_effect(live, self._change)
        to = resolve_destination(self.rule.scope, live.settings_folder, live.shared.settings.places, live.shared.umask)
        try:
            await read_in_thread(check_addition, to, self.rule.behavior, self.rule.rule)
        except CannotWrite as error:
            raise Conflict(f"The rule was not written: {error}", file=to.file) from None

    async def write(self, settled: Settlement) -> Settlement:
        """The answer has won. Where the file cannot be written after all, the rule is added to the session instead."""
        try:
            await remember_rule(self.actor, self._change, self.by)
        except Conflict as error:
            return await self._fall_back_to_session(settled, error)
        return settled

    @property
    def _change(self) -> RuleChange:
        return RuleChange(self.rule.behavior, self.rule.rule, self.rule.scope)

    async def _fall_back_to_session(self, settled: Settlement, error: Conflict) -> Settlement:
        journal = self.actor.live.journal
        ask: Ask = settled.ask.model_copy(update={"answer": {**(settled.ask.answer or {}), "scope": "session"}})
        record = await journal.asks.remember_in_session(ask, self.rule.behavior, self.rule.rule)
        words = f"{error.message} Your answer counts, and the rule {self.rule.rule} for this session only."
        journal.add_notice(ask.turn_id, Notice(level="warning", text=words))
        return replace(settled, ask=ask, record=record)
