"""Whether a call may run, and with which input: validation, hooks, the chain of ten, and the people."""

import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import orjson
from pydantic import TypeAdapter

from ostler.protocol import times
from ostler.protocol.ask import Answer, Deny, DenyAlways
from ostler.protocol.errors import AskResolved
from ostler.protocol.shapes import Ask, Decision
from ostler.server.classifier import ClassifierDesk, Opinion, Question
from ostler.server.engine.asks.asks import HOOK, AskDesk, answer_of, changed_input, ends_turn, has_words, permission_ask
from ostler.server.engine.calls.parse_input import BadInput, parse_input
from ostler.server.engine.calls.pending_call import Entry
from ostler.server.engine.calls.stop_reasons import BY_HOOK, BY_REFUSAL
from ostler.server.engine.journal.calls import Draft
from ostler.server.engine.permissions.decide import (
    Case,
    PermissionContext,
    Verdict,
    decide,
    denied_by_rule,
    heeds_classifier,
)
from ostler.server.engine.permissions.rule_match import needs_subject
from ostler.server.engine.session.hooks import Hooking
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.hooks import NOTHING, Outcome
from ostler.tools.context import ToolContext
from ostler.tools.permissions.subject import OfText, Subject
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Allow, AnyTool, Check, Pass, Refuse, ToolInput

T = TypeVar("T")
_ANSWERS: TypeAdapter[Answer] = TypeAdapter(Answer)
_SHOWN_CHARS: Final = 2000
"""How much of a changed input the model is shown."""


class CallFailed(Exception):
    """A step ended the call; the message is for the model, the number of the tool's own for clients."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Denied(Exception):
    """Permission was refused; the words are for the model."""

    def __init__(self, verdict: Verdict, words: str) -> None:
        self.verdict = verdict
        self.words = words


@dataclass(slots=True)
class _Considered:
    """What the classifier thinks of one call, asked before it is known whether that counts."""

    question: Question
    desk: ClassifierDesk
    case: Case
    permission: PermissionContext
    opinion: Opinion | None = None

    async def consider(self) -> None:
        """Ask, if the chain would come to the classifier without the hooks: what a rule settles costs nothing."""
        await decide(replace(self.case, classify=self._asked), self.permission)

    async def _asked(self) -> Opinion:
        self.opinion = await self.desk.consider(self.question)
        return self.opinion

    async def classify(self) -> Opinion:
        """The opinion, now that it counts. Who was unsure a moment ago is not asked again about the same call."""
        if self.opinion is not None and self.opinion.behavior == "ask":
            return self.desk.settle(self.opinion)
        return await self.desk.classify(self.question)


@dataclass(frozen=True, slots=True)
class Permitting:
    """Steps 3 to 5 of a call."""

    session: LiveSession
    asks: AskDesk
    state: TurnState
    draft: Callable[[], Draft]
    """Blocks of the message in progress that have to be stored with what depends on them."""
    expire_seconds: float | None

    async def permitted(self, entry: Entry, tool: AnyTool, given: ToolInput, context: ToolContext) -> ToolInput:
        """Steps 3 to 5: the input with which the call may run; raises where it may not."""
        if entry.ask is None:
            entry.spans.begin("validate")
            await self._validate(tool, given, context)
            entry.spans.begin("hooks_before")
            given, outcome, before = await self._hooks_before(entry, tool, given, context)
            entry.spans.begin("permission")
            check = await tool.check_permission(given, context)
            if isinstance(check, Allow) and check.input is not None:
                given = self._changed(
                    entry, tool, check.input.model_dump(mode="json", by_alias=True, exclude_unset=True)
                )
                await self._validate(tool, given, context)
            verdict = await decide(await self._case(tool, given, check, outcome, before), self.session.permission)
            entry.call = entry.call.changed(decision=verdict.decision())
            if verdict.behavior == "deny":
                raise Denied(verdict, f"Permission to use {tool.name} was denied. {verdict.reason}")
            if verdict.behavior == "allow":
                return given
            ask = await self._ask(entry, tool, given, verdict)
        else:
            entry.spans.begin("ask")
            ask = await self.asks.wait(entry.ask)
        entry.spans.begin("permission")
        return await self._answered(entry, tool, given, context, ask)

    async def _hooks_before(
        self, entry: Entry, tool: AnyTool, given: ToolInput, context: ToolContext
    ) -> tuple[ToolInput, Outcome, "_Considered | None"]:
        """Step 4, with the classifier beside it: its opinion is kept until it is wanted."""
        if not self.session.hooks.any_for("PreToolUse", tool.name):
            return given, NOTHING, None
        considered = await self._considered(tool, given, context)
        running = Hooking(self.session, entry.call.turn_id).tool("PreToolUse", entry.call)
        if considered is not None:
            running = _beside(running, considered.consider, wait=True)
        outcome = entry.heed(await running)
        if outcome.changed_input is not None and outcome.changed_input != entry.call.input:
            given = self._changed(entry, tool, dict(outcome.changed_input))
            await self._validate(tool, given, context)
        return given, outcome, considered

    async def _considered(self, tool: AnyTool, given: ToolInput, context: ToolContext) -> "_Considered | None":
        """The question to the classifier, where its opinion may count."""
        permission = self.session.permission
        question = self._question(tool, given) if heeds_classifier(tool, permission) else None
        if question is None:
            return None
        case = await self._case(tool, given, await tool.check_permission(given, context))
        return _Considered(question, self.session.classifier, case, permission)

    async def _case(
        self,
        tool: AnyTool,
        given: ToolInput,
        check: Check,
        outcome: Outcome = NOTHING,
        before: "_Considered | None" = None,
    ) -> Case:
        subject: Subject = OfText(tool.permission_matcher(given))
        if needs_subject(self.session.rules, tool) or tool.writes_files(given):
            subject = await tool.subject(given, self.session.surroundings)
        question = self._question(tool, given)
        classify = None
        if before is not None and before.question == question:
            classify = before.classify
        elif question is not None:
            classify = partial(self.session.classifier.classify, question)
        return Case(tool, given, check, subject, outcome, classify)

    def _question(self, tool: AnyTool, given: ToolInput) -> Question | None:
        text = tool.classifier_text(given)
        if not text:
            return None
        surroundings = self.session.surroundings
        return Question(
            tool=tool.name,
            text=text,
            folder=surroundings.shell_folder,
            roots=surroundings.roots,
            task=self.state.task,
            read_only=tool.is_read_only(given),
            # Of commands the classifier has a table of its own, which knows more of the places than the words say.
            destructive=not tool.runs_commands and tool.is_destructive(given),
        )

    async def _validate(self, tool: AnyTool, given: ToolInput, context: ToolContext) -> None:
        failure = await tool.validate(given, context)
        if failure is not None:
            raise CallFailed(failure.message, failure.code or None)

    async def _ask(self, entry: Entry, tool: AnyTool, given: ToolInput, verdict: Verdict) -> Ask:
        entry.call = entry.call.changed(status="waiting")
        bound_to = await tool.bound_to(given, self.session.surroundings)
        # Not on the event loop: a command is taken apart for it.
        destructive = await read_in_thread(tool.is_destructive, given)
        record, limit = self.session.record, self.expire_seconds
        ask = permission_ask(entry.call, tool, verdict, record, limit, destructive=destructive, bound_to=bound_to)
        queued, entry.queued = entry.queued, True
        entry.spans.begin("ask")
        putting = self.asks.ask(ask, entry.call, self.draft(), queued=queued)
        hooks = self.session.hooks
        if not (hooks.any_for("PermissionRequest", tool.name) or hooks.any_for("Notification")):
            return await putting
        # Beside the people: whoever answers first has answered.
        return await _beside(putting, partial(self._hooks_answer, entry, ask), wait=False)

    async def _hooks_answer(self, entry: Entry, ask: Ask) -> None:
        hooking = Hooking(self.session, entry.call.turn_id)
        outcome = entry.heed(await hooking.tool("PermissionRequest", entry.call))
        answer = answer_of(outcome)
        if answer is None:
            await hooking.moment("Notification", notification_type="permission_prompt", message=ask.message)
            return
        with contextlib.suppress(AskResolved):  # a person was faster
            await self.asks.resolve(ask, answer, f"{HOOK}{outcome.by}")

    async def _answered(
        self, entry: Entry, tool: AnyTool, given: ToolInput, context: ToolContext, ask: Ask
    ) -> ToolInput:
        """What a person's answer makes of the call."""
        if ask.status == "cancelled" or ask.answer is None:
            raise CallFailed("Cancelled before anybody answered.")
        answer = _ANSWERS.validate_python(ask.answer)
        by = ask.answered_by or "somebody"
        if isinstance(answer, Deny | DenyAlways):
            raise self._denied_by_person(tool, given, ask, answer)
        who = "hook" if by.startswith(HOOK) else "person"
        rule, at = getattr(answer, "rule", None), ask.answered_at or times.now()
        decision = Decision(behavior="allow", by=who, rule=rule, source=by, decided_at=at)
        entry.call = entry.call.changed(decision=decision)
        self.session.classifier.person_answered()
        changed = changed_input(answer)
        if entry.ask is not None and changed in (None, entry.call.input):
            # Put before a restart, and only now: until somebody has answered, it is their question.
            await self._validate(tool, given, context)
        if changed is not None and changed != entry.call.input:
            given = self._changed(entry, tool, changed)
            entry.changed_by_person = who == "person"
            if entry.changed_by_person:
                entry.notes.append(_told_of_change(entry))
            await self._validate(tool, given, context)
            # The tool looks at what it is given now; a person has said yes to it, so only a refusal counts.
            check = await tool.check_permission(given, context)
            if isinstance(check, Refuse):
                raise Denied(Verdict("deny", "tool", check.reason), check.reason)
        elif ask.bound_to is not None and ask.bound_to != await tool.bound_to(given, self.session.surroundings):
            raise CallFailed(
                "Its folder, a script or a server of it is another one than when it was allowed. Ask again."
            )
        # Hours may have passed: what a rule forbids by now stays forbidden.
        denied = denied_by_rule(await self._case(tool, given, Pass()), self.session.permission)
        if denied is not None:
            raise Denied(denied, f"Permission to use {tool.name} was denied. {denied.reason}")
        return given

    def _denied_by_person(self, tool: AnyTool, given: ToolInput, ask: Ask, answer: Deny | DenyAlways) -> Denied:
        hook = (ask.answered_by or "").startswith(HOOK)
        by = "time limit" if ask.status == "expired" else "hook" if hook else "person"
        self.session.classifier.person_answered()
        if ask.status == "expired":
            words = "Nobody answered in time, which counts as a no. Go on without it, or say what you need."
        elif has_words(answer):
            words = f"{'A hook' if hook else 'The person'} said no to this call, in these words: {answer.message}"
        else:
            words = "The person said no to this call. Do not try the same in another way."
        if ask.status == "resolved" and ends_turn(answer):
            self.state.halt("interrupted", BY_HOOK if hook else BY_REFUSAL)
        helps = ask.suggestions[0].rule if ask.suggestions else None
        reason = answer.message if has_words(answer) else None
        at = ask.answered_at
        verdict = Verdict("deny", by, reason or words, source=ask.answered_by, helps=helps, decided_at=at)
        return Denied(verdict, words)

    def _changed(self, entry: Entry, tool: AnyTool, as_json: dict[str, Any]) -> ToolInput:
        """Another input passes the schema like the first one, and is asked again whether it is safe beside others."""
        try:
            given, repaired = parse_input(tool, as_json)
        except BadInput as error:
            raise CallFailed(str(error)) from None
        self.session.journal.keep_as_queued(entry.call)
        entry.take(tool, given, repaired)
        entry.slot.safe = entry.is_safe()
        return given


def _told_of_change(entry: Entry) -> str:
    # The history keeps what the model wrote: without these words it would take the result for that call's.
    given = orjson.dumps(entry.call.input).decode()
    shown = given if len(given) <= _SHOWN_CHARS else f"{given[:_SHOWN_CHARS]}…"
    return f"The person changed the input of the {entry.call.tool} call {entry.use.id} before allowing it, to: {shown}"


async def _beside(main: Awaitable[T], other: Callable[[], Coroutine[Any, Any, Any]], *, wait: bool) -> T:
    """Do something else meanwhile; where nobody waits for it, it ends with the main thing."""
    done: list[T] = []
    failed: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(other)
        try:
            done.append(await main)
        except Exception as error:  # noqa: BLE001 - raised below, as it is: in a group it would be hidden
            failed = error
        if failed is not None or not wait:
            group.cancel_scope.cancel()
    if failed is not None:
        raise failed
    return done[0]
