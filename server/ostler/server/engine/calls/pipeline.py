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
from ostler.protocol.shapes import Call, Denial
from ostler.server.engine.calls.authorize import Authorizer, CallFailed, Denied
from ostler.server.engine.calls.client_diagnostics import make_diagnostics
from ostler.server.engine.calls.file_history import TurnFiles
from ostler.server.engine.calls.parse_input import BadInput, parse_input
from ostler.server.engine.calls.pending_call import PendingCall, announce_calls
from ostler.server.engine.calls.render import limit_messages, render_result
from ostler.server.engine.calls.result_limits import cut_fields, limit_result
from ostler.server.engine.calls.stop_reasons import BY_MISSING_SANDBOX
from ostler.server.engine.calls.stored_results import OwnedResults
from ostler.server.engine.journal.calls import CompletedCall, Draft
from ostler.server.engine.permissions.decide import uses_classifier
from ostler.server.engine.session.file_reads import CallFileReads
from ostler.server.engine.session.hooks import SessionHooks, build_tool_response
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.tasks.tool_adapter import SessionTasks
from ostler.server.observability import logs
from ostler.server.observability.metrics import ToolCounts
from ostler.storage import Scope
from ostler.tools.context import ToolContext
from ostler.tools.registry import ToolSet
from ostler.tools.sandbox.policy import SandboxMissing
from ostler.tools.services import FileServices, Services
from ostler.tools.tool import (
    AnyTool,
    Failure,
    FileChanged,
    GitChanged,
    ToolResult,
    text_block,
)

WaitUntilSafe = Callable[[PendingCall], Awaitable[None]]
"""Waits until a call is safe beside the calls that run already: its input may have changed since it began."""
_ANSWERS: TypeAdapter[Answer] = TypeAdapter(Answer)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The steps that carry one call from the model's tool use to its stored result."""

    session: LiveSession
    toolset: ToolSet
    authorizer: Authorizer
    state: TurnState
    draft: Callable[[], Draft]
    """Blocks of the message in progress that have to be stored with what depends on them."""
    results: ResultSettings
    counts: ToolCounts

    # Steps 1 and 2, as soon as the model has written the call: the executor has to know whether it is safe.

    def look_up(self, pending: PendingCall) -> None:
        """Find the tool, and parse the input; what is wrong is set as the problem of the call."""
        try:
            self._look_up(pending)
        except Exception as error:  # noqa: BLE001 - a boundary: tools come from anywhere, and so do their errors
            pending.parsed_input, pending.problem = None, _report_tool_error(pending, error)
        pending.spans.begin("order")

    def _look_up(self, pending: PendingCall) -> None:
        pending.spans.begin("look_up")
        tool = self.toolset.find(pending.use.name)
        if isinstance(tool, str):
            pending.problem = tool
            return
        pending.tool = tool
        pending.call = pending.call.changed(tool=tool.name, interrupt=tool.interrupt)
        if pending.use.input_error is not None:
            pending.problem = pending.use.input_error
            return
        pending.spans.begin("schema")
        try:
            parsed_input, repaired = parse_input(tool, pending.call.input, pending.use.name)
        except BadInput as error:
            pending.problem = str(error)
            return
        pending.set_input(tool, parsed_input, repaired)

    def may_hold(self, pending: PendingCall) -> bool:
        """Whether hooks or the classifier may take long before the call starts, or is asked about."""
        tool = pending.tool
        if tool is None:
            return False
        return self.session.hooks.has_hooks_for("PreToolUse", tool.name) or uses_classifier(
            tool, self.session.permission
        )

    def announce(self, pending: PendingCall) -> None:
        """Tell of a call as queued, where the log does not know it yet, and of those before it."""
        announce_calls(pending, self.session.journal, self.draft)

    # The other steps, once the call may start.

    async def process(self, pending: PendingCall, wait_until_safe: WaitUntilSafe) -> None:
        """Carry a call to its result, which is stored when this returns."""
        try:
            await self._process(pending, wait_until_safe)
        except CallFailed as failed:
            self.complete_with_error(pending, str(failed), failed.code)
        except Denied as denied:
            self._complete_denied(pending, denied)
        except SandboxMissing as missing:
            # The model can do nothing about it: no command runs on this machine.
            self.complete_with_error(pending, str(missing))
            self.state.halt("failed", BY_MISSING_SANDBOX, {"code": "sandbox_missing", "message": str(missing)})
        except ProtocolError:
            raise  # storing failed, which concerns the whole session
        except Exception as error:  # noqa: BLE001 - a boundary, as above: what a tool raises is its bug, and a result
            self.complete_with_error(pending, _report_tool_error(pending, error))
        if pending.started:
            pending.spans.begin("hooks_after")
            await self._run_post_hooks(pending)
            await self._run_file_hooks(pending)

    async def _run_file_hooks(self, pending: PendingCall) -> None:
        hooks = SessionHooks(self.session, pending.call.turn_id)
        for path in pending.changed_files:
            await hooks.fire_file_changed(path)

    async def _run_post_hooks(self, pending: PendingCall) -> None:
        """Step 9: PostToolUse or PostToolUseFailure hooks."""
        event = "PostToolUseFailure" if pending.call.is_error else "PostToolUse"
        if not self.session.hooks.has_hooks_for(event, pending.call.tool):
            return
        hooks = SessionHooks(self.session, pending.call.turn_id)
        pending.add_hook_outcome(
            await hooks.fire_for_call(event, pending.call, tool_response=build_tool_response(pending.call))
        )

    async def _process(self, pending: PendingCall, wait_until_safe: WaitUntilSafe) -> None:
        tool, parsed_input = pending.tool, pending.parsed_input
        if pending.problem is not None or tool is None or parsed_input is None:
            raise CallFailed(pending.problem or "The call cannot be run.")
        reads = self.session.reads.create_recorder()
        context = self._build_context(pending, reads)
        parsed_input = await self.authorizer.authorize(pending, tool, parsed_input, context)
        if pending.changed_by_person:
            context = replace(context, changed_by_person=True)
        read_only = tool.shell.runs_commands and pending.allowed_as_read_only
        pending.only_reads = read_only if tool.shell.runs_commands else pending.only_reads
        pending.spans.begin("order")
        await wait_until_safe(pending)
        pending.spans.begin("run")
        pending.call = pending.call.changed(status="running", started_at=times.now())
        await self._store_start(pending, tool)
        pending.began = began = time.perf_counter()
        try:
            result = await tool.run(parsed_input, self._refresh_context(pending, context, read_only=read_only))
            took = int((time.perf_counter() - began) * 1000)
            if isinstance(result, Failure):
                pending.call = pending.call.changed(duration_ms=took)
                raise CallFailed(result.message, result.code or None)
            await self._complete(pending, tool, result, reads, took)
        except BaseException:
            reads.undo()
            raise

    async def _store_start(self, pending: PendingCall, tool: AnyTool) -> None:
        """Store that the call starts; for one that may change something, wait until that is on the disk."""
        # A read-only call may run twice; a tool that `waits_at_gate` waits later itself, for a write of the same queue.
        at_gate = tool.shell.waits_at_gate and (
            pending.parsed_input is None or not tool.shell.writes_files(pending.parsed_input)
        )
        waits = not (at_gate or pending.only_reads)
        announce_calls(pending.previous, self.session.journal, self.draft)
        stored = self.session.journal.start_call(pending.call, self.draft(), queued=pending.queued, urgent=waits)
        # Set before the wait: where the call is cancelled meanwhile, its start is written all the same.
        pending.queued = True
        if waits:
            await stored
        pending.started = True

    def _refresh_context(self, pending: PendingCall, context: ToolContext, *, read_only: bool) -> ToolContext:
        """The context with the present view of the session, which may have changed while an ask was open.

        It says, too, what allowed the call.
        """
        now = self.session.view
        decision = pending.call.decision
        by_check = decision is not None and decision.by in {"read_only", "tool"}
        by_rule = decision is not None and decision.by == "rule" and _allows_parts(decision.rule or "", pending.call)
        if context.session is now and not by_check and not by_rule:
            return context
        return replace(
            context,
            session=now,
            only_reads=read_only,
            allowed_by_check=by_check,
            allowed_by_text=by_check or by_rule,
        )

    def _build_context(self, pending: PendingCall, reads: CallFileReads) -> ToolContext:
        scope = Scope(self.session.record.id, self.session.record.root_id, pending.call.turn_id)

        def send_progress(kind: Any, data: dict[str, Any]) -> None:
            elapsed = int((time.perf_counter() - pending.began) * 1000)
            progress = ToolProgress(call_id=pending.call.call_id, kind=kind, elapsed_ms=elapsed, data=data)
            self.session.journal.log.publish_transient("tool.progress", scope, progress)

        return ToolContext(
            call_id=pending.call.call_id,
            session=self.session.view,
            services=Services(
                FileServices(
                    reads,
                    TurnFiles(self.session.journal, pending.call.turn_id),
                    make_diagnostics(self.session.shared.client_calls, scope),
                ),
                self.session.processes,
                OwnedResults(self.session.journal.log, self.session.record.id),
                SessionTasks(self.session.tasks, scope, pending.use.id, self.session.view.background),
            ),
            progress=send_progress,
            output_folder=self.session.shared.output_folder,
            background_request=pending.background,
            wake_signal=self.session.wake_signal,
            partial_output=pending.partial_output,
        )

    # Endings.

    async def _complete(
        self, pending: PendingCall, tool: AnyTool, result: ToolResult[Any], reads: CallFileReads, took: int
    ) -> None:
        """Steps 7 and 8: render, fill if empty, persist if large."""
        shown = await render_result(tool, result.output, self.results, self.session.journal, pending.spans)
        pending.call = pending.call.changed(
            status="completed",
            is_error=result.is_error,
            output=shown.output,
            content=shown.limited.blocks,
            result_id=shown.limited.result_id,
            duration_ms=took,
        )
        pending.changes = [change for change in result.changes if not isinstance(change, FileChanged)]
        files = [
            FileChange(path=change.path, patch=change.patch, call_id=pending.call.call_id)
            for change in result.changes
            if isinstance(change, FileChanged)
        ]
        pending.changed_files = [change.path for change in files]
        further = limit_messages(tool, result.messages, self.results)
        pending.messages = [each.blocks for each in further]
        self._store(
            pending,
            CompletedCall(
                pending.call,
                reads.added,
                files,
                _find_git_change(pending, result),
                shown.whole,
                pending.messages,
                [(each.result_id, each.whole) for each in further if each.result_id and each.whole],
            ),
        )

    def complete_stopped(self, pending: PendingCall, words: str) -> None:
        """Complete a call that was cancelled; what it had printed may be all that is known of its effect."""
        output = _build_stopped_output(pending)
        printed = _render_printed(pending, output)
        shown = f"{words}\nIt had printed:\n{printed}" if printed else words
        as_json = cut_fields(output.model_dump(mode="json", by_alias=True)) if output is not None else None
        self.complete_with_error(pending, shown, output=as_json)

    def complete_with_error(
        self, pending: PendingCall, words: str, code: int | None = None, output: Any = None
    ) -> None:
        shown = limit_result(pending.tool, [text_block(f"<tool_use_error>{words}</tool_use_error>")], self.results)
        pending.call = pending.call.changed(
            status="completed",
            is_error=True,
            error_code=code,
            output=output,
            content=shown.blocks,
            result_id=shown.result_id,
        )
        self._store(pending, CompletedCall(pending.call, whole_result=shown.whole))

    def _complete_denied(self, pending: PendingCall, denied: Denied) -> None:
        pending.call = pending.call.changed(decision=denied.verdict.to_decision())
        assert pending.tool is not None
        self.state.add_denial(
            Denial(
                tool=pending.tool.name,
                input=cut_fields(pending.call.input, 2000),
                reason=denied.verdict.reason or denied.words,
                allow_with=denied.verdict.allow_with,
            )
        )
        self.complete_with_error(pending, denied.words, pending.tool.permissions.denied_code)

    def record_end(self, pending: PendingCall) -> None:
        """Record the metrics of a call that is over."""
        pending.spans.end()
        # A name that no tool has is the model's invention: each would be a metric of its own for ever.
        name = pending.tool.name if pending.tool is not None else "unknown"
        self.counts.note(name, "error" if pending.call.is_error else "ok", pending.spans.taken)
        if pending.call.decision is not None:
            self.counts.note_decision(pending.call.decision)
        self.counts.cancelled += pending.cancel_reason is not None
        logs.log.debug(
            "tool_finished",
            session=pending.call.session_id,
            call=pending.call.call_id,
            tool=name,
            is_error=pending.call.is_error,
            seconds=pending.spans.taken,
        )

    def _store(self, pending: PendingCall, ended: CompletedCall) -> None:
        announce_calls(pending.previous, self.session.journal, self.draft)
        self.session.journal.end_call(ended, self.draft(), queued=pending.queued)
        pending.queued = True


def _allows_parts(rule: str, call: Call) -> bool:
    """Whether a rule allows a command by its parts: of one that is the whole line a person has seen every word."""
    return "(" in rule and rule != f"{call.tool}({str(call.input.get('command', '')).strip()})"


def _find_git_change(pending: PendingCall, result: ToolResult[Any]) -> GitChange | None:
    """What a command did to a git repository, for the log; the session applies it in the order of the calls."""
    found = next((change for change in result.changes if isinstance(change, GitChanged)), None)
    return GitChange.model_validate({"call_id": pending.call.call_id, **found.facts}) if found else None


def _build_stopped_output(pending: PendingCall) -> BaseModel | None:
    """The tool's output for a call that was stopped after it had begun; None where there is none."""
    if pending.tool is None or not pending.began:
        return None
    return pending.tool.shell.stopped(pending.partial_output.text, int((time.perf_counter() - pending.began) * 1000))


def _render_printed(pending: PendingCall, output: BaseModel | None) -> str:
    """What a stopped call had printed, rendered as it would have been at its end."""
    if pending.tool is None or output is None:
        return pending.partial_output.text.strip()
    return "\n".join(block.get("text", "") for block in pending.tool.render(output)).strip()


def _report_tool_error(pending: PendingCall, error: Exception) -> str:
    """Log what a tool raised; returns the message for the model."""
    logs.log.error("tool_failed", tool=pending.call.tool, exc_info=error)
    return f"The tool {pending.call.tool} failed: {type(error).__name__}: {error}"
