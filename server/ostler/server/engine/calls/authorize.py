"""Authorizes a call: validation, hooks, the permission chain of ten steps, and the ask to the people."""

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
from ostler.server.classifier import Question
from ostler.server.engine.asks.asks import (
    CLASSIFIER_PREFIX,
    HOOK_PREFIX,
    TurnAsks,
    build_hook_answer,
    build_permission_ask,
    ends_turn,
    get_changed_input,
    has_words,
)
from ostler.server.engine.asks.classification import Classification, ClassifierSettler, EarlyClassification
from ostler.server.engine.calls.parse_input import BadInput, parse_input
from ostler.server.engine.calls.pending_call import PendingCall, announce_calls
from ostler.server.engine.calls.stop_reasons import BY_HOOK, BY_REFUSAL
from ostler.server.engine.journal.calls import Draft
from ostler.server.engine.permissions.decide import (
    Case,
    Verdict,
    decide,
    find_denial,
    uses_classifier,
)
from ostler.server.engine.permissions.rule_match import needs_subject
from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.hooks import NO_OUTCOME, Outcome
from ostler.tools.call_subject import find_rule_text, find_subject
from ostler.tools.context import ToolContext
from ostler.tools.permissions.subject import Subject, TextSubject
from ostler.tools.text import cut_text
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Allow, AnyTool, Check, Pass, Refuse, ToolInput

T = TypeVar("T")
_ANSWERS: TypeAdapter[Answer] = TypeAdapter(Answer)
_NOTIFY_AFTER_SECONDS: Final = 2
"""How long Notification hooks wait for the classifier, which may settle the ask."""
_SHOWN_CHARS: Final = 2000
"""How many characters of a changed input the model is shown."""


class CallFailed(Exception):
    """A step ended the call; the message is for the model, the tool's own error code for clients."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Denied(Exception):
    """Permission was refused; the words are the result that the model gets."""

    def __init__(self, verdict: Verdict, words: str) -> None:
        self.verdict = verdict
        self.words = words


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Steps 3 to 5 of a call: validation, hooks, permission."""

    session: LiveSession
    asks: TurnAsks
    state: TurnState
    draft: Callable[[], Draft]
    """Blocks of the message in progress that have to be stored with what depends on them."""
    expire_seconds: float | None

    async def authorize(
        self, pending: PendingCall, tool: AnyTool, parsed_input: ToolInput, context: ToolContext
    ) -> ToolInput:
        """The input with which the call may run; raises CallFailed or Denied where it may not."""
        if pending.ask is not None:
            pending.spans.begin("ask")
            ask: Ask | None = await self._wait_again(pending, pending.ask, tool, parsed_input, context)
        else:
            pending.spans.begin("validate")
            # Before the tool's own checks: what a rule denies is told as denied, whatever else is wrong with it.
            await self._refuse_denied(tool, parsed_input)
            await self._validate(tool, parsed_input, context)
            pending.spans.begin("hooks_before")
            early = await self._prepare_early(tool, parsed_input, context)
            deciding = self._decide(pending, tool, parsed_input, context, early.classification if early else None)
            parsed_input, ask = await (deciding if early is None else _run_beside(deciding, early.run))
        if ask is None:
            return parsed_input
        pending.spans.begin("permission")
        return await self._apply_answer(pending, tool, parsed_input, context, ask)

    async def _decide(
        self,
        pending: PendingCall,
        tool: AnyTool,
        parsed_input: ToolInput,
        context: ToolContext,
        classification: Classification | None,
    ) -> tuple[ToolInput, Ask | None]:
        """Steps 4 and 5: the input as hooks and the tool leave it, and the settled ask where one was needed."""
        parsed_input, outcome = await self._run_pre_hooks(pending, tool, parsed_input, context)
        pending.spans.begin("permission")
        check = await tool.check_permission(parsed_input, context)
        if isinstance(check, Allow) and check.input is not None:
            parsed_input = self._replace_input(
                pending, tool, check.input.model_dump(mode="json", by_alias=True, exclude_unset=True)
            )
            await self._validate(tool, parsed_input, context)
        if classification is None or classification.question != self._build_question(tool, parsed_input):
            classification = self._build_classification(tool, parsed_input)
        case = await self._build_case(tool, parsed_input, check, outcome, classification)
        verdict = await decide(case, self.session.permission)
        pending.call = pending.call.changed(decision=verdict.to_decision())
        if verdict.behavior == "deny":
            raise Denied(verdict, f"Permission to use {tool.name} was denied. {verdict.reason}")
        if verdict.behavior == "allow":
            return parsed_input, None
        settler = self._make_settler(classification, tool, parsed_input, context) if verdict.classifies else None
        return parsed_input, await self._ask(pending, tool, parsed_input, verdict, settler)

    async def _run_pre_hooks(
        self, pending: PendingCall, tool: AnyTool, parsed_input: ToolInput, context: ToolContext
    ) -> tuple[ToolInput, Outcome]:
        """Step 4: PreToolUse hooks."""
        if not self.session.hooks.has_hooks_for("PreToolUse", tool.name):
            return parsed_input, NO_OUTCOME
        running = SessionHooks(self.session, pending.call.turn_id).fire_for_call("PreToolUse", pending.call)
        outcome = pending.add_hook_outcome(await running)
        if outcome.changed_input is not None and outcome.changed_input != pending.call.input:
            parsed_input = self._replace_input(pending, tool, dict(outcome.changed_input))
            await self._validate(tool, parsed_input, context)
        return parsed_input, outcome

    # The classifier: beside the hooks, and beside the people.

    async def _prepare_early(
        self, tool: AnyTool, parsed_input: ToolInput, context: ToolContext
    ) -> EarlyClassification | None:
        """The question to the classifier, to be asked while hooks run; None where there are none, or it has no say."""
        permission = self.session.permission
        if not self.session.hooks.has_hooks_for("PreToolUse", tool.name) or not uses_classifier(tool, permission):
            return None
        classification = self._build_classification(tool, parsed_input)
        if classification is None:
            return None
        case = await self._build_case(tool, parsed_input, await tool.check_permission(parsed_input, context))
        return EarlyClassification(classification, case, permission)

    def _build_classification(self, tool: AnyTool, parsed_input: ToolInput) -> Classification | None:
        question = self._build_question(tool, parsed_input)
        return Classification(question, self.session.classifier) if question is not None else None

    def _make_settler(
        self, classification: Classification | None, tool: AnyTool, parsed_input: ToolInput, context: ToolContext
    ) -> ClassifierSettler | None:
        if classification is None:
            return None

        async def still_asks() -> bool:
            # Rules and mode may have changed while it thought: it settles only what it would settle now.
            check = await tool.check_permission(parsed_input, context)
            unasked = Classification(classification.question, self.session.classifier)
            case = await self._build_case(tool, parsed_input, check, NO_OUTCOME, unasked)
            verdict = await decide(replace(case, is_classified=lambda: False), self.session.permission)
            return verdict.classifies

        return ClassifierSettler(classification, self.asks, still_asks)

    async def _wait_again(
        self, pending: PendingCall, ask: Ask, tool: AnyTool, parsed_input: ToolInput, context: ToolContext
    ) -> Ask:
        """Wait for an ask from before a restart; the classifier may settle it where it might have before."""
        waiting = self.asks.wait(ask)
        decision = pending.call.decision
        # What a rule, a hook or safety asked about is none of its business: only the end of the chain is.
        if ask.status != "open" or decision is None or decision.by != "default":
            return await waiting
        classification = self._build_classification(tool, parsed_input)
        settler = self._make_settler(classification, tool, parsed_input, context)
        if settler is None or not uses_classifier(tool, self.session.permission):
            return await waiting
        return await _run_beside(waiting, partial(settler.settle, ask))

    async def _build_case(
        self,
        tool: AnyTool,
        parsed_input: ToolInput,
        check: Check,
        outcome: Outcome = NO_OUTCOME,
        classification: Classification | None = None,
    ) -> Case:
        subject: Subject = TextSubject(find_rule_text(tool, parsed_input))
        if needs_subject(self.session.rules, tool) or tool.shell.writes_files(parsed_input):
            subject = await find_subject(tool, parsed_input, self.session.view)
        if classification is None:
            return Case(tool, parsed_input, check, subject, outcome)
        return Case(tool, parsed_input, check, subject, outcome, classification.classify, classification.is_there)

    def _build_question(self, tool: AnyTool, parsed_input: ToolInput) -> Question | None:
        text = tool.classifier_text(parsed_input)
        if not text:
            return None
        view = self.session.view
        return Question(
            tool=tool.name,
            text=text,
            folder=view.shell_folder,
            roots=view.roots,
            last_input=self.state.input_text,
            read_only=tool.is_read_only(parsed_input),
            # For commands the classifier has a table of its own, which knows more about the paths than the text says.
            destructive=not tool.shell.runs_commands and tool.is_destructive(parsed_input),
        )

    async def _validate(self, tool: AnyTool, parsed_input: ToolInput, context: ToolContext) -> None:
        failure = await tool.validate(parsed_input, context)
        if failure is not None:
            raise CallFailed(failure.message, failure.code or None)

    async def _ask(
        self,
        pending: PendingCall,
        tool: AnyTool,
        parsed_input: ToolInput,
        verdict: Verdict,
        settler: ClassifierSettler | None,
    ) -> Ask:
        pending.call = pending.call.changed(status="waiting")
        bound_to = await tool.shell.bound_to(parsed_input, self.session.view)
        # Not on the event loop: this parses the whole command.
        destructive = await read_in_thread(tool.is_destructive, parsed_input)
        record, limit = self.session.record, self.expire_seconds
        ask = build_permission_ask(
            pending.call, tool, verdict, record, limit, destructive=destructive, bound_to=bound_to
        )
        announce_calls(pending.previous, self.session.journal, self.draft)
        queued, pending.queued = pending.queued, True
        pending.spans.begin("ask")
        asking = self.asks.ask(ask, pending.call, self.draft(), queued=queued)
        # Hooks, the classifier and people are asked at the same time: the first answer counts.
        others: list[Callable[[], Coroutine[Any, Any, None]]] = []
        hooks = self.session.hooks
        if hooks.has_hooks_for("PermissionRequest", tool.name) or hooks.has_hooks_for("Notification"):
            others.append(partial(self._ask_hooks, pending, ask, settler))
        if settler is not None:
            others.append(partial(settler.settle, ask))
        return await (_run_beside(asking, *others) if others else asking)

    async def _ask_hooks(self, pending: PendingCall, ask: Ask, settler: ClassifierSettler | None) -> None:
        """Resolve the ask where a PermissionRequest hook answers it; else tell Notification hooks of it."""
        hooks = SessionHooks(self.session, pending.call.turn_id)
        outcome = pending.add_hook_outcome(await hooks.fire_for_call("PermissionRequest", pending.call))
        answer = build_hook_answer(outcome)
        if answer is None:
            if settler is not None:
                # Nobody is called to the screen for what the classifier settles in a moment.
                with anyio.move_on_after(_NOTIFY_AFTER_SECONDS):
                    await settler.classification.left_to_people.wait()
            await hooks.fire("Notification", notification_type="permission_prompt", message=ask.message)
            return
        with contextlib.suppress(AskResolved):  # a person was faster
            await self.asks.resolve(ask, answer, f"{HOOK_PREFIX}{outcome.by}")

    async def _apply_answer(
        self, pending: PendingCall, tool: AnyTool, parsed_input: ToolInput, context: ToolContext, ask: Ask
    ) -> ToolInput:
        """Apply the answer to an ask; returns the input with which the call may run, or raises."""
        if ask.status == "cancelled" or ask.answer is None:
            raise CallFailed("Cancelled before anybody answered.")
        answer = _ANSWERS.validate_python(ask.answer)
        by = ask.answered_by or "somebody"
        if isinstance(answer, Deny | DenyAlways):
            raise self._build_denial(tool, parsed_input, ask, answer)
        who = "hook" if by.startswith(HOOK_PREFIX) else "classifier" if by.startswith(CLASSIFIER_PREFIX) else "person"
        rule, at = getattr(answer, "rule", None), ask.answered_at or times.now()
        reason = ask.reason if who == "classifier" else None
        source = by.removeprefix(CLASSIFIER_PREFIX)
        decision = Decision(behavior="allow", by=who, rule=rule, source=source, reason=reason, decided_at=at)
        pending.call = pending.call.changed(decision=decision)
        if who != "classifier":
            self.session.classifier.reset_denials()
        changed = get_changed_input(answer)
        if pending.ask is not None and changed in (None, pending.call.input):
            # The ask is from before a restart: its input is validated only now that somebody has answered.
            await self._validate(tool, parsed_input, context)
        if changed is not None and changed != pending.call.input:
            parsed_input = self._replace_input(pending, tool, changed)
            pending.changed_by_person = who == "person"
            if pending.changed_by_person:
                pending.notes.append(_describe_change(pending))
            await self._validate(tool, parsed_input, context)
            # The tool checks the new input; a person has said yes to it, so only a refusal of the tool counts.
            check = await tool.check_permission(parsed_input, context)
            if isinstance(check, Refuse):
                raise Denied(Verdict("deny", "tool", check.reason), check.reason)
        elif ask.bound_to is not None and ask.bound_to != await tool.shell.bound_to(parsed_input, self.session.view):
            raise CallFailed(
                "Its folder, a script or a server of it is another one than when it was allowed. Ask again."
            )
        # Hours may have passed: a deny rule that was added meanwhile counts.
        await self._refuse_denied(tool, parsed_input)
        return parsed_input

    async def _refuse_denied(self, tool: AnyTool, parsed_input: ToolInput) -> None:
        """Raises Denied where a deny rule forbids the call for certain."""
        if not self.session.rules.denies_anything:
            return  # to find out what a call touches takes time
        denied = find_denial(await self._build_case(tool, parsed_input, Pass()), self.session.permission)
        if denied is not None:
            raise Denied(denied, f"Permission to use {tool.name} was denied. {denied.reason}")

    def _build_denial(self, tool: AnyTool, parsed_input: ToolInput, ask: Ask, answer: Deny | DenyAlways) -> Denied:
        hook = (ask.answered_by or "").startswith(HOOK_PREFIX)
        by = "time limit" if ask.status == "expired" else "hook" if hook else "person"
        self.session.classifier.reset_denials()
        if ask.status == "expired":
            words = "Nobody answered in time, which counts as a no. Go on without it, or say what you need."
        elif has_words(answer):
            words = f"{'A hook' if hook else 'The person'} said no to this call, in these words: {answer.message}"
        else:
            words = "The person said no to this call. Do not try the same in another way."
        if ask.status == "resolved" and ends_turn(answer):
            self.state.halt("interrupted", BY_HOOK if hook else BY_REFUSAL)
        allow_with = ask.suggestions[0].rule if ask.suggestions else None
        reason = answer.message if has_words(answer) else None
        at = ask.answered_at
        verdict = Verdict("deny", by, reason or words, source=ask.answered_by, allow_with=allow_with, decided_at=at)
        return Denied(verdict, words)

    def _replace_input(self, pending: PendingCall, tool: AnyTool, as_json: dict[str, Any]) -> ToolInput:
        """Give the call another input: the schema is checked again, and so is its concurrency safety."""
        try:
            parsed_input, repaired = parse_input(tool, as_json)
        except BadInput as error:
            raise CallFailed(str(error)) from None
        self.session.journal.keep_as_queued(pending.call)
        pending.set_input(tool, parsed_input, repaired)
        pending.slot.safe = pending.is_safe()
        return parsed_input


def _describe_change(pending: PendingCall) -> str:
    # The history keeps the input that the model wrote: without this note it would take the result for that one's.
    as_json = orjson.dumps(pending.call.input).decode()
    shown = cut_text(as_json, _SHOWN_CHARS)
    call = f"the {pending.call.tool} call {pending.use.id}"
    return f"The person changed the input of {call} before allowing it, to: {shown}"


async def _run_beside(main: Awaitable[T], *others: Callable[[], Coroutine[Any, Any, Any]]) -> T:
    """Await `main` while others run, which are cancelled when it is done."""
    done: list[T] = []
    failed: Exception | None = None
    async with anyio.create_task_group() as group:
        for other in others:
            group.start_soon(other)
        try:
            done.append(await main)
        except Exception as error:  # noqa: BLE001 - raised below, as it is: in a group it would be hidden
            failed = error
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed
    return done[0]
