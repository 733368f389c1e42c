"""One call, step by step: look up, schema, validate, permission, run, render, persist.

Any step can end the call with an error for the model. Hooks take their places, before permission and after the run,
when they come.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from ostler.protocol import times
from ostler.protocol.ask import Answer, Deny, DenyAlways
from ostler.protocol.errors import ProtocolError
from ostler.protocol.events import FileChange, ToolProgress
from ostler.protocol.ids import new_result_id
from ostler.protocol.shapes import Ask, Decision, Denial
from ostler.server import logs
from ostler.server.engine.asks import AskDesk, changed_input, ends_turn, permission_ask
from ostler.server.engine.budget import cut_fields, limit_of, stand_in, text_of
from ostler.server.engine.entry import Entry
from ostler.server.engine.journal import Draft, Ended
from ostler.server.engine.live import CallReads, LiveSession
from ostler.server.engine.permission import Verdict, decide, denied_by_rule, rule_for
from ostler.server.engine.schema import BadInput, parse_input
from ostler.server.engine.state import TurnState
from ostler.storage import Scope
from ostler.tools.context import ToolContext
from ostler.tools.registry import ToolSet
from ostler.tools.tool import Allow, AnyTool, Block, Failure, FileChanged, Ran, Refuse, ToolInput, text_block

_PRINTED_CHARS = 10_000
_ANSWERS: TypeAdapter[Answer] = TypeAdapter(Answer)


class CallFailed(Exception):
    """A step ended the call; the message is for the model."""


class _Denied(Exception):
    def __init__(self, verdict: Verdict, words: str) -> None:
        self.verdict = verdict
        self.words = words


@dataclass(frozen=True, slots=True)
class Pipeline:
    session: LiveSession
    toolset: ToolSet
    asks: AskDesk
    state: TurnState
    draft: Callable[[], Draft]
    """Blocks of the message in progress that have to be stored with what depends on them."""
    clear_to_run: Callable[[Entry], Any]
    """Waits until a call may run beside what runs already: its input may have changed since it began."""
    expire_seconds: float | None

    # Steps 1 and 2, as soon as the model has written the call: the executor has to know whether it is safe.

    def look_up(self, entry: Entry) -> None:
        try:
            self._look_up(entry)
        except Exception as error:  # noqa: BLE001 - a boundary: tools come from anywhere, and so do their mistakes
            entry.given, entry.problem = None, _mistake(entry, error)

    def _look_up(self, entry: Entry) -> None:
        tool = self.toolset.find(entry.use.name)
        if isinstance(tool, str):
            entry.problem = tool
            return
        entry.tool = tool
        entry.call = entry.call.model_copy(update={"tool": tool.name, "interrupt": tool.interrupt})
        if entry.use.broken is not None:
            entry.problem = _not_json(entry.use.broken)
            return
        try:
            given, repaired = parse_input(tool, entry.call.input)
        except BadInput as error:
            entry.problem = str(error)
            return
        self._take_input(entry, tool, given, repaired)

    def _take_input(self, entry: Entry, tool: AnyTool, given: ToolInput, as_json: dict[str, Any]) -> None:
        entry.given = given
        entry.only_reads = tool.is_read_only(given)
        entry.call = entry.call.model_copy(
            update={"input": as_json, "summary": tool.summary(given), "activity": tool.activity(given)}
        )

    def is_safe(self, entry: Entry) -> bool:
        if entry.tool is None or entry.given is None:
            return False
        try:
            return entry.tool.is_concurrency_safe(entry.given)
        except Exception as error:  # noqa: BLE001 - a plug-in's mistake makes its call unsafe, and nothing worse
            logs.log.warning("safety_check_failed", tool=entry.tool.name, exc_info=error)
            return False

    # The rest, when its turn has come.

    async def process(self, entry: Entry) -> None:
        """Carry a call to its result, which is stored when this returns."""
        try:
            await self._process(entry)
        except CallFailed as failed:
            self.complete_with_error(entry, str(failed))
        except _Denied as denied:
            self._complete_denied(entry, denied)
        except ProtocolError:
            raise  # the disk's trouble, which is the whole session's
        except Exception as error:  # noqa: BLE001 - a boundary, as above: what a tool raises is its bug, and a result
            self.complete_with_error(entry, _mistake(entry, error))

    async def _process(self, entry: Entry) -> None:
        tool, given = entry.tool, entry.given
        if entry.problem is not None or tool is None or given is None:
            raise CallFailed(entry.problem or "The call cannot be run.")
        reads = self.session.reads.recorder()
        context = self._context(entry, reads)
        given = await self._permitted(entry, tool, given, context)
        await self.clear_to_run(entry)
        entry.call = entry.call.model_copy(update={"status": "running", "started_at": times.now()})
        await self._store_start(entry, tool)
        began = time.perf_counter()
        ran = await tool.run(given, self._context(entry, reads))
        took = int((time.perf_counter() - began) * 1000)
        if isinstance(ran, Failure):
            entry.call = entry.call.model_copy(update={"duration_ms": took})
            raise CallFailed(ran.message)
        self._complete(entry, tool, ran, reads, took)

    async def _store_start(self, entry: Entry, tool: AnyTool) -> None:
        """Before anything happens that cannot be taken back, the disk knows of it."""
        # Reading twice harms nobody, and a gate waits for a later unit of the same queue.
        waits = not (tool.waits_at_gate or entry.only_reads)
        stored = self.session.journal.call_started(entry.call, self.draft(), queued=entry.queued, urgent=waits)
        # Noted before the wait: where the call is cancelled meanwhile, its start is written all the same.
        entry.queued = True
        if waits:
            await stored
        entry.started = True

    async def _permitted(self, entry: Entry, tool: AnyTool, given: ToolInput, context: ToolContext) -> ToolInput:
        """Steps 3 to 5: the input with which the call may run; raises where it may not."""
        await self._validate(tool, given, context)
        if entry.ask is None:
            check = await tool.check_permission(given, context)
            if isinstance(check, Allow) and check.input is not None:
                given = self._changed(
                    entry, tool, check.input.model_dump(mode="json", by_alias=True, exclude_unset=True)
                )
                await self._validate(tool, given, context)
            verdict = decide(tool, given, check, self.session.permission)
            entry.call = entry.call.model_copy(update={"decision": verdict.decision()})
            if verdict.behavior == "deny":
                raise _Denied(verdict, f"Permission to use {tool.name} was denied. {verdict.reason}")
            if verdict.behavior == "allow":
                return given
            ask = await self._ask(entry, tool, given, verdict)
        else:
            ask = await self.asks.wait(entry.ask)
        return await self._answered(entry, tool, given, context, ask)

    async def _validate(self, tool: AnyTool, given: ToolInput, context: ToolContext) -> None:
        failure = await tool.validate(given, context)
        if failure is not None:
            raise CallFailed(failure.message)

    async def _ask(self, entry: Entry, tool: AnyTool, given: ToolInput, verdict: Verdict) -> Ask:
        entry.call = entry.call.model_copy(update={"status": "waiting"})
        ask = permission_ask(entry.call, tool, given, verdict, self.session.record, self.expire_seconds)
        queued, entry.queued = entry.queued, True
        return await self.asks.ask(ask, entry.call, self.draft(), queued=queued)

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
        entry.call = entry.call.model_copy(
            update={"decision": Decision(behavior="allow", by="person", rule=getattr(answer, "rule", None), source=by)}
        )
        changed = changed_input(answer)
        if changed is not None and changed != entry.call.input:
            given = self._changed(entry, tool, changed)
            await self._validate(tool, given, context)
            # The tool looks at what it is given now; a person has said yes to it, so only a refusal counts.
            check = await tool.check_permission(given, context)
            if isinstance(check, Refuse):
                raise _Denied(Verdict("deny", "tool", check.reason), check.reason)
            entry.slot.safe = self.is_safe(entry)
        # Hours may have passed: what a rule forbids by now stays forbidden.
        denied = denied_by_rule(tool, given, self.session.permission)
        if denied is not None:
            raise _Denied(denied, f"Permission to use {tool.name} was denied. {denied.reason}")
        return given

    def _denied_by_person(self, tool: AnyTool, given: ToolInput, ask: Ask, answer: Deny | DenyAlways) -> _Denied:
        by = "time limit" if ask.status == "expired" else "person"
        if ask.status == "expired":
            words = "Nobody answered in time, which counts as a no. Go on without it, or say what you need."
        elif answer.message:
            words = f"The person said no to this call, in these words: {answer.message}"
        else:
            words = "The person said no to this call. Do not try the same in another way."
        if ask.status == "resolved" and ends_turn(answer):
            self.state.halt("interrupted")
        return _Denied(Verdict("deny", by, answer.message or words, source=ask.answered_by), words)

    def _changed(self, entry: Entry, tool: AnyTool, as_json: dict[str, Any]) -> ToolInput:
        """Another input passes the schema like the first one."""
        try:
            given, repaired = parse_input(tool, as_json)
        except BadInput as error:
            raise CallFailed(str(error)) from None
        self.session.journal.keep_as_queued(entry.call)
        self._take_input(entry, tool, given, repaired)
        return given

    def _context(self, entry: Entry, reads: CallReads) -> ToolContext:
        began = time.perf_counter()
        scope = Scope(self.session.record.id, self.session.record.root_id, entry.call.turn_id)

        def tell(kind: Any, data: dict[str, Any]) -> None:
            entry.printed = (entry.printed + str(data.get("output", "")))[-_PRINTED_CHARS:]
            elapsed = int((time.perf_counter() - began) * 1000)
            progress = ToolProgress(call_id=entry.call.call_id, kind=kind, elapsed_ms=elapsed, data=data)
            self.session.journal.log.say("tool.progress", scope, progress)

        return ToolContext(
            call_id=entry.call.call_id,
            surroundings=self.session.surroundings,
            reads=reads,
            processes=self.session.processes,
            progress=tell,
            output_folder=self.session.rooms.output_folder,
        )

    # Endings.

    def _complete(self, entry: Entry, tool: AnyTool, ran: Ran[Any], reads: CallReads, took: int) -> None:
        """Steps 7 and 8: render, fill if empty, persist if large."""
        try:
            blocks = tool.render(ran.output)
            output = cut_fields(ran.output.model_dump(mode="json", by_alias=True))
        except Exception as error:  # noqa: BLE001 - a boundary, as above: the work is done, only its words are missing
            logs.log.error("render_failed", tool=tool.name, exc_info=error)
            blocks, output = [text_block(f"{tool.name} completed, but its result could not be shown: {error}")], None
        if not blocks or (len(blocks) == 1 and blocks[0].get("text", "x").strip() == ""):
            blocks = [text_block(f"({tool.name} completed with no output)")]
        blocks, whole = _bounded(tool, blocks)
        result_id = new_result_id() if whole is not None else None
        if whole is not None and result_id is not None:
            blocks = [*(block for block in blocks if block["type"] != "text"), stand_in(tool, whole, result_id)]
        entry.call = entry.call.model_copy(
            update={
                "status": "completed",
                "is_error": ran.is_error,
                "output": output,
                "content": blocks,
                "result_id": result_id,
                "duration_ms": took,
            }
        )
        entry.changes = [change for change in ran.changes if not isinstance(change, FileChanged)]
        files = [
            FileChange(path=change.path, patch=change.patch, call_id=entry.call.call_id)
            for change in ran.changes
            if isinstance(change, FileChanged)
        ]
        self._store(entry, Ended(entry.call, reads.added, files, whole))

    def complete_stopped(self, entry: Entry, words: str) -> None:
        """A call that was cancelled: what it had printed may be all that is known of its effect."""
        printed = f"\nIt had printed:\n{entry.printed.strip()}" if entry.printed.strip() else ""
        self.complete_with_error(entry, words + printed)

    def complete_with_error(self, entry: Entry, words: str) -> None:
        blocks = [text_block(f"<tool_use_error>{words}</tool_use_error>")]
        changes = {"status": "completed", "is_error": True, "content": blocks}
        entry.call = entry.call.model_copy(update=changes)
        self._store(entry, Ended(entry.call))

    def _complete_denied(self, entry: Entry, denied: _Denied) -> None:
        entry.call = entry.call.model_copy(update={"decision": denied.verdict.decision()})
        assert entry.tool is not None
        assert entry.given is not None
        self.state.deny(
            Denial(
                tool=entry.tool.name,
                input=cut_fields(entry.call.input, 2000),
                reason=denied.verdict.reason or denied.words,
                allow_with=None if denied.verdict.by in {"safety", "tool"} else rule_for(entry.tool, entry.given),
            )
        )
        self.complete_with_error(entry, denied.words)

    def _store(self, entry: Entry, ended: Ended) -> None:
        self.session.journal.call_completed(ended, self.draft(), queued=entry.queued)
        entry.queued = True


def _bounded(tool: AnyTool, blocks: list[Block]) -> tuple[list[Block], str | None]:
    limit = limit_of(tool)
    text = text_of(blocks)
    return blocks, text if limit is not None and len(text) > limit else None


def _mistake(entry: Entry, error: Exception) -> str:
    logs.log.error("tool_failed", tool=entry.call.tool, exc_info=error)
    return f"The tool {entry.call.tool} failed: {type(error).__name__}: {error}"


def _not_json(raw: str) -> str:
    shown = raw if len(raw) <= 200 else f"{raw[:200]}… ({len(raw)} characters)"
    return f"The input is not a JSON object, so nothing was run. It was: {shown}"
