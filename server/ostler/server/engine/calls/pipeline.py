"""One call, step by step: look up, schema, validate, hooks, permission, run, render, persist, hooks again.

Any step can end the call with an error for the model.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, TypeAdapter

from ostler.protocol import times
from ostler.protocol.ask import Answer
from ostler.protocol.config import Results as ResultSettings
from ostler.protocol.errors import ProtocolError
from ostler.protocol.events import FileChange, GitChange, ToolProgress
from ostler.protocol.shapes import Denial
from ostler.server.engine.calls.authorize import CallFailed, Denied, Permitting
from ostler.server.engine.calls.client_diagnostics import diagnostics_of
from ostler.server.engine.calls.file_history import TurnFiles
from ostler.server.engine.calls.parse_input import BadInput, parse_input
from ostler.server.engine.calls.pending_call import Entry
from ostler.server.engine.calls.render import rendered
from ostler.server.engine.calls.result_limits import bounded, cut_fields
from ostler.server.engine.calls.stop_reasons import BY_MISSING_SANDBOX
from ostler.server.engine.calls.stored_results import OwnedResults
from ostler.server.engine.journal.calls import Draft, Ended
from ostler.server.engine.session.file_reads import CallReads
from ostler.server.engine.session.hooks import Hooking, response_of
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.tasks.tool_adapter import SessionTasks
from ostler.server.observability import logs
from ostler.server.observability.metrics import ToolCounts
from ostler.storage import Scope
from ostler.tools.context import ToolContext
from ostler.tools.registry import ToolSet
from ostler.tools.sandbox.policy import SandboxMissing
from ostler.tools.tool import (
    AnyTool,
    Failure,
    FileChanged,
    GitChanged,
    Ran,
    text_block,
)

ClearToRun = Callable[[Entry], Awaitable[None]]
"""Waits until a call may run beside what runs already: its input may have changed since it began."""
_ANSWERS: TypeAdapter[Answer] = TypeAdapter(Answer)


@dataclass(frozen=True, slots=True)
class Pipeline:
    session: LiveSession
    toolset: ToolSet
    permitting: Permitting
    state: TurnState
    draft: Callable[[], Draft]
    """Blocks of the message in progress that have to be stored with what depends on them."""
    results: ResultSettings
    counts: ToolCounts

    # Steps 1 and 2, as soon as the model has written the call: the executor has to know whether it is safe.

    def look_up(self, entry: Entry) -> None:
        try:
            self._look_up(entry)
        except Exception as error:  # noqa: BLE001 - a boundary: tools come from anywhere, and so do their mistakes
            entry.given, entry.problem = None, _mistake(entry, error)
        entry.spans.begin("order")

    def _look_up(self, entry: Entry) -> None:
        entry.spans.begin("look_up")
        tool = self.toolset.find(entry.use.name)
        if isinstance(tool, str):
            entry.problem = tool
            return
        entry.tool = tool
        entry.call = entry.call.changed(tool=tool.name, interrupt=tool.interrupt)
        if entry.use.unusable is not None:
            entry.problem = entry.use.unusable
            return
        entry.spans.begin("schema")
        try:
            given, repaired = parse_input(tool, entry.call.input, entry.use.name)
        except BadInput as error:
            entry.problem = str(error)
            return
        entry.take(tool, given, repaired)

    # The rest, when its turn has come.

    async def process(self, entry: Entry, clear_to_run: ClearToRun) -> None:
        """Carry a call to its result, which is stored when this returns."""
        try:
            await self._process(entry, clear_to_run)
        except CallFailed as failed:
            self.complete_with_error(entry, str(failed), failed.code)
        except Denied as denied:
            self._complete_denied(entry, denied)
        except SandboxMissing as missing:
            # Nothing that the model does about it would help: no command runs on this machine.
            self.complete_with_error(entry, str(missing))
            self.state.halt("failed", BY_MISSING_SANDBOX, {"code": "sandbox_missing", "message": str(missing)})
        except ProtocolError:
            raise  # the disk's trouble, which is the whole session's
        except Exception as error:  # noqa: BLE001 - a boundary, as above: what a tool raises is its bug, and a result
            self.complete_with_error(entry, _mistake(entry, error))
        if entry.started:
            await self._hooks_after(entry)

    async def _hooks_after(self, entry: Entry) -> None:
        """Step 9."""
        entry.spans.begin("hooks_after")
        event = "PostToolUseFailure" if entry.call.is_error else "PostToolUse"
        if not self.session.hooks.any_for(event, entry.call.tool):
            return
        hooking = Hooking(self.session, entry.call.turn_id)
        entry.heed(await hooking.tool(event, entry.call, tool_response=response_of(entry.call)))

    async def _process(self, entry: Entry, clear_to_run: ClearToRun) -> None:
        tool, given = entry.tool, entry.given
        if entry.problem is not None or tool is None or given is None:
            raise CallFailed(entry.problem or "The call cannot be run.")
        reads = self.session.reads.recorder()
        context = self._context(entry, reads)
        given = await self.permitting.permitted(entry, tool, given, context)
        if entry.changed_by_person:
            context = replace(context, changed_by_person=True)
        kept_to_reading = tool.runs_commands and entry.kept_to_reading
        entry.only_reads = kept_to_reading if tool.runs_commands else entry.only_reads
        entry.spans.begin("order")
        await clear_to_run(entry)
        entry.spans.begin("run")
        entry.call = entry.call.changed(status="running", started_at=times.now())
        await self._store_start(entry, tool)
        entry.began = began = time.perf_counter()
        try:
            ran = await tool.run(given, self._at_the_start(context, kept_to_reading=kept_to_reading))
            took = int((time.perf_counter() - began) * 1000)
            if isinstance(ran, Failure):
                entry.call = entry.call.changed(duration_ms=took)
                raise CallFailed(ran.message, ran.code or None)
            await self._complete(entry, tool, ran, reads, took)
        except BaseException:
            reads.take_back()
            raise

    async def _store_start(self, entry: Entry, tool: AnyTool) -> None:
        """Before anything happens that cannot be taken back, the disk knows of it."""
        # Reading twice harms nobody, and a gate waits for a later unit of the same queue.
        at_gate = tool.waits_at_gate and (entry.given is None or not tool.writes_files(entry.given))
        waits = not (at_gate or entry.only_reads)
        stored = self.session.journal.call_started(entry.call, self.draft(), queued=entry.queued, urgent=waits)
        # Noted before the wait: where the call is cancelled meanwhile, its start is written all the same.
        entry.queued = True
        if waits:
            await stored
        entry.started = True

    def _at_the_start(self, context: ToolContext, *, kept_to_reading: bool) -> ToolContext:
        """The context as it is now: what the session is may have changed while somebody was asked."""
        now = self.session.surroundings
        if context.surroundings is now and not kept_to_reading:
            return context
        return replace(context, surroundings=now, only_reads=kept_to_reading)

    def _context(self, entry: Entry, reads: CallReads) -> ToolContext:
        scope = Scope(self.session.record.id, self.session.record.root_id, entry.call.turn_id)

        def tell(kind: Any, data: dict[str, Any]) -> None:
            elapsed = int((time.perf_counter() - entry.began) * 1000)
            progress = ToolProgress(call_id=entry.call.call_id, kind=kind, elapsed_ms=elapsed, data=data)
            self.session.journal.log.say("tool.progress", scope, progress)

        return ToolContext(
            call_id=entry.call.call_id,
            surroundings=self.session.surroundings,
            reads=reads,
            processes=self.session.processes,
            progress=tell,
            output_folder=self.session.rooms.output_folder,
            results=OwnedResults(self.session.journal.log, self.session.record.id),
            history=TurnFiles(self.session.journal, entry.call.turn_id),
            diagnostics=diagnostics_of(self.session.rooms.client_calls, scope),
            tasks=SessionTasks(self.session.tasks, scope, entry.use.id, self.session.surroundings.background),
            background=entry.background,
            stir=self.session.stir,
            last_words=entry.last_words,
        )

    # Endings.

    async def _complete(self, entry: Entry, tool: AnyTool, ran: Ran[Any], reads: CallReads, took: int) -> None:
        """Steps 7 and 8: render, fill if empty, persist if large."""
        shown = await rendered(tool, ran.output, self.results, self.session.journal, entry.spans)
        entry.call = entry.call.changed(
            status="completed",
            is_error=ran.is_error,
            output=shown.output,
            content=shown.bounded.blocks,
            result_id=shown.bounded.result_id,
            duration_ms=took,
        )
        entry.changes = [change for change in ran.changes if not isinstance(change, FileChanged)]
        files = [
            FileChange(path=change.path, patch=change.patch, call_id=entry.call.call_id)
            for change in ran.changes
            if isinstance(change, FileChanged)
        ]
        self._store(entry, Ended(entry.call, reads.added, files, _git_change(entry, ran), shown.whole))

    def complete_stopped(self, entry: Entry, words: str) -> None:
        """A call that was cancelled: what it had printed may be all that is known of its effect."""
        output = _stopped_output(entry)
        printed = _text_of(entry, output)
        shown = f"{words}\nIt had printed:\n{printed}" if printed else words
        as_json = cut_fields(output.model_dump(mode="json", by_alias=True)) if output is not None else None
        self.complete_with_error(entry, shown, output=as_json)

    def complete_with_error(self, entry: Entry, words: str, code: int | None = None, output: Any = None) -> None:
        shown = bounded(entry.tool, [text_block(f"<tool_use_error>{words}</tool_use_error>")], self.results)
        entry.call = entry.call.changed(
            status="completed",
            is_error=True,
            error_code=code,
            output=output,
            content=shown.blocks,
            result_id=shown.result_id,
        )
        self._store(entry, Ended(entry.call, whole_result=shown.whole))

    def _complete_denied(self, entry: Entry, denied: Denied) -> None:
        entry.call = entry.call.changed(decision=denied.verdict.decision())
        assert entry.tool is not None
        self.state.deny(
            Denial(
                tool=entry.tool.name,
                input=cut_fields(entry.call.input, 2000),
                reason=denied.verdict.reason or denied.words,
                allow_with=denied.verdict.helps,
            )
        )
        self.complete_with_error(entry, denied.words, entry.tool.denied_code)

    def over(self, entry: Entry) -> None:
        """It has its result, and nothing comes after it."""
        entry.spans.end()
        # A name that no tool has is the model's own: each would be a row of its own for ever.
        name = entry.tool.name if entry.tool is not None else "unknown"
        self.counts.note(name, "error" if entry.call.is_error else "ok", entry.spans.taken)
        logs.log.debug(
            "tool_finished",
            session=entry.call.session_id,
            call=entry.call.call_id,
            tool=name,
            is_error=entry.call.is_error,
            seconds=entry.spans.taken,
        )

    def _store(self, entry: Entry, ended: Ended) -> None:
        self.session.journal.call_completed(ended, self.draft(), queued=entry.queued)
        entry.queued = True


def _git_change(entry: Entry, ran: Ran[Any]) -> GitChange | None:
    """What a command did to a repository, for the log; the session itself learns of it when its turn comes."""
    found = next((change for change in ran.changes if isinstance(change, GitChanged)), None)
    return GitChange.model_validate({"call_id": entry.call.call_id, **found.facts}) if found else None


def _stopped_output(entry: Entry) -> BaseModel | None:
    """What the tool has to say of a call that had begun."""
    if entry.tool is None or not entry.began:
        return None
    return entry.tool.stopped(entry.last_words.text, int((time.perf_counter() - entry.began) * 1000))


def _text_of(entry: Entry, output: BaseModel | None) -> str:
    """What it had printed, as the model would have seen it at its end."""
    if entry.tool is None or output is None:
        return entry.last_words.text.strip()
    return "\n".join(block.get("text", "") for block in entry.tool.render(output)).strip()


def _mistake(entry: Entry, error: Exception) -> str:
    logs.log.error("tool_failed", tool=entry.call.tool, exc_info=error)
    return f"The tool {entry.call.tool} failed: {type(error).__name__}: {error}"
