"""The steps of one call after it was parsed: validate, hooks, permission, run, render, persist, hooks again.

Any step can end the call with an error for the model. The first two, look up and schema, are `parse_call`.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from ostler.protocol import times
from ostler.protocol.brief import Brief
from ostler.protocol.config import Results as ResultSettings
from ostler.protocol.errors import ProtocolError
from ostler.protocol.events import FileChange, GitChange, ToolProgress
from ostler.protocol.shapes import Call, Denial
from ostler.server.engine.calls.authorize import Authorizer, CallFailed, Denied
from ostler.server.engine.calls.call_run import CallRun
from ostler.server.engine.calls.call_writer import CallWriter
from ostler.server.engine.calls.client_diagnostics import make_diagnostics
from ostler.server.engine.calls.parse_input import report_tool_error
from ostler.server.engine.calls.render import RenderedResult, limit_messages, render_result
from ostler.server.engine.calls.result_limits import cut_fields, limit_result
from ostler.server.engine.calls.stages import Authorized, Ended, Parsed, Running, Unusable
from ostler.server.engine.calls.store_result import StoredAttachments, build_file_record
from ostler.server.engine.calls.stored_results import OwnedResults
from ostler.server.engine.discovery.skills import SessionSkills
from ostler.server.engine.discovery.tool_adapter import SessionDiscovery
from ostler.server.engine.journal.calls import CompletedCall
from ostler.server.engine.permissions.decide import uses_classifier, uses_grants
from ostler.server.engine.servers.call_servers import CallServers
from ostler.server.engine.session.file_history import TurnFiles
from ostler.server.engine.session.file_reads import CallFileReads
from ostler.server.engine.session.hooks import SessionHooks, build_tool_response
from ostler.server.engine.session.live import LiveSession, find_record_change
from ostler.server.engine.session.turn_state import BY_MISSING_SANDBOX, TurnState
from ostler.server.engine.tasks.tool_adapter import SessionTasks
from ostler.server.engine.todos.tool_adapter import SessionTodos
from ostler.server.engine.web.session_web import SessionWeb
from ostler.server.engine.worktrees.session_worktrees import SessionWorktrees
from ostler.server.observability import logs
from ostler.server.observability.metrics import ToolCounts
from ostler.storage import Scope
from ostler.tools.context import ToolContext
from ostler.tools.sandbox.policy import SandboxMissing
from ostler.tools.services import FileServices, Services
from ostler.tools.tool import AnyTool, BriefSent, Failure, FileChanged, GitChanged, ToolResult, text_block


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The steps that carry a parsed call to its stored result.

    `authorize` comes first, then `work`, which takes the value that it has made.
    """

    session: LiveSession
    authorizer: Authorizer
    state: TurnState
    writer: CallWriter
    results: ResultSettings
    counts: ToolCounts

    def may_hold(self, tool: AnyTool | None) -> bool:
        """Whether hooks or the classifier may take long before the call starts, or is asked about."""
        if tool is None:
            return False
        permission = self.session.permission
        asks_model = uses_classifier(tool, permission) or uses_grants(tool, permission)
        return asks_model or self.session.hooks.has_hooks_for("PreToolUse", tool.name)

    async def authorize(self, run: CallRun) -> Authorized | None:
        """Steps 3 to 5; None where one of them has ended the call."""
        with self._end_where_it_raises(run):
            if not isinstance(run.stage, Parsed):
                raise CallFailed(run.stage.problem if isinstance(run.stage, Unusable) else "The call cannot be run.")
            reads = self.session.reads.create_recorder()
            context = self._build_context(run, reads)
            # One that goes on was authorized before the daemon was killed.
            parsed = run.stage if run.goes_on else await self.authorizer.authorize(run, run.stage, context)
            if parsed.changed_by_person or parsed.answer is not None:
                context = replace(context, changed_by_person=parsed.changed_by_person, answer=parsed.answer)
            return Authorized(parsed, context, reads)
        return None

    async def work(self, run: CallRun, authorized: Authorized) -> None:
        """Steps 6 to 9: its result is stored when this returns."""
        with self._end_where_it_raises(run):
            await self._run_tool(run, authorized)
        if isinstance(run.stage, Ended) and run.stage.has_run:
            run.spans.begin("hooks_after")
            await self._run_post_hooks(run, run.stage)

    @contextmanager
    def _end_where_it_raises(self, run: CallRun) -> Iterator[None]:
        """End the call with an error result where a step raises."""
        try:
            yield
        except CallFailed as failed:
            self.end_with_error(run, str(failed), failed.code)
        except Denied as denied:
            self._end_denied(run, denied)
        except SandboxMissing as missing:
            # The model can do nothing about it: no command runs on this machine.
            self.end_with_error(run, str(missing))
            self.state.halt("failed", BY_MISSING_SANDBOX, {"code": "sandbox_missing", "message": str(missing)})
        except ProtocolError:
            raise  # storing failed, which concerns the whole session
        except Exception as error:  # noqa: BLE001 - a boundary, as above: what a tool raises is its bug, and a result
            self.end_with_error(run, report_tool_error(run.call, error))

    async def _run_tool(self, run: CallRun, authorized: Authorized) -> None:
        """Steps 6 to 8."""
        running = await self._start(run, authorized.parsed)
        reads = authorized.reads
        try:
            result = await running.tool.run(running.input, self._refresh_context(running, authorized))
            took = run.measure_ms()
            if isinstance(result, Failure):
                run.reach(replace(running, call=running.call.changed(duration_ms=took)))
                raise CallFailed(result.message, result.code or None)
            if running.tool.on_server is not None and not result.is_error:
                result = await self._replace_output(run, running, result, authorized.context)
            shown = await render_result(running.tool, result.output, self.results, self.session.journal, run.spans)
            self._end_with_result(run, running, result, shown, reads, took)
        except BaseException:
            reads.undo()
            raise

    async def _replace_output(
        self, run: CallRun, running: Running, result: ToolResult[Any], context: ToolContext
    ) -> ToolResult[Any]:
        """The result as PostToolUse hooks leave it: what they put in its place is what is rendered and stored."""
        if not self.session.hooks.has_hooks_for("PostToolUse", running.tool.name):
            return result
        response = result.output.model_dump(mode="json", by_alias=True)
        hooks = SessionHooks(self.session, running.call.turn_id)
        outcome = await hooks.fire_for_call("PostToolUse", running.call, tool_response=response)
        run.notes.add(outcome)
        run.post_hooks_ran = True
        if outcome.replaced_output is None:
            return result
        output = await running.tool.replace_output(outcome.replaced_output.output, context)
        return result if output is None else replace(result, output=output)

    async def _start(self, run: CallRun, parsed: Parsed) -> Running:
        """Store that the call starts; for one that may change something, wait until that is on the disk."""
        run.spans.begin("run")
        tool, has_effect = parsed.tool, parsed.has_effect()
        if run.goes_on:
            return run.reach(Running(parsed.call, tool, parsed.input, has_effect, time.perf_counter()))
        parsed = run.reach(replace(parsed, call=parsed.call.changed(status="running", started_at=times.now())))
        # A read-only call may run twice; a tool that `waits_at_gate` waits later itself, for a write of the same queue.
        waits = has_effect and not (tool.shell.waits_at_gate and not tool.shell.writes_files(parsed.input))
        # Where the call is cancelled while this waits, its start is written all the same.
        stored = self.writer.start_call(run, urgent=waits)
        if waits:
            await stored
        return run.reach(Running(parsed.call, tool, parsed.input, has_effect, time.perf_counter()))

    def _refresh_context(self, running: Running, authorized: Authorized) -> ToolContext:
        """The context with the present view of the session, which may have changed while an ask was open.

        It says, too, what allowed the call.
        """
        now, context = self.session.view, authorized.context
        decision = running.call.decision
        by_check = decision is not None and decision.by in {"read_only", "tool"}
        by_rule = decision is not None and decision.by == "rule" and _allows_parts(decision.rule or "", running.call)
        if context.session is now and not by_check and not by_rule:
            return context
        return replace(
            context,
            session=now,
            only_reads=running.tool.shell.runs_commands and authorized.parsed.allowed_as_read_only,
            allowed_by_check=by_check,
            allowed_by_text=by_check or by_rule,
        )

    def _build_context(self, run: CallRun, reads: CallFileReads) -> ToolContext:
        call = run.call
        scope = Scope(self.session.record.id, self.session.record.root_id, call.turn_id)

        def send_progress(kind: Any, data: dict[str, Any]) -> None:
            progress = ToolProgress(call_id=call.call_id, kind=kind, elapsed_ms=run.measure_ms(), data=data)
            self.session.journal.log.publish_transient("tool.progress", scope, progress)

        return ToolContext(
            call_id=call.call_id,
            session=self.session.view,
            services=Services(
                FileServices(
                    reads,
                    TurnFiles(self.session.journal, call.turn_id),
                    make_diagnostics(self.session.shared.client_calls, scope),
                ),
                self.session.processes,
                OwnedResults(self.session.journal.log, self.session.record.id),
                SessionTasks(self.session.tasks, scope, run.use.id, self.session.view.background),
                SessionTodos(self.session, call.turn_id),
                SessionWorktrees(self.session, call.turn_id),
                self.session.agents.for_call(self.session, call, goes_on=run.goes_on),
                SessionWeb(self.session),
                StoredAttachments(self.session.journal),
                SessionDiscovery(self.session, self.state),
                SessionSkills(self.session, self.state),
                CallServers(self.session, self.authorizer.asks, call, self.authorizer.expire_seconds),
            ),
            progress=send_progress,
            output_folder=self.session.shared.output_folder,
            background_request=run.background,
            wake_signal=self.session.wake_signal,
            partial_output=run.partial_output,
        )

    # Endings.

    def _end_with_result(
        self,
        run: CallRun,
        running: Running,
        result: ToolResult[Any],
        shown: RenderedResult,
        reads: CallFileReads,
        took: int,
    ) -> None:
        call = running.call.changed(
            status="completed",
            is_error=result.is_error,
            output=shown.output,
            content=shown.limited.blocks,
            result_id=shown.limited.result_id,
            duration_ms=took,
        )
        files = [
            FileChange(path=change.path, patch=change.patch, call_id=call.call_id)
            for change in result.changes
            if isinstance(change, FileChanged)
        ]
        further = limit_messages(running.tool, result.messages, self.results)
        messages = [each.blocks for each in further]
        run.reach(
            Ended(
                call,
                running.tool,
                has_run=True,
                had_effect=running.has_effect,
                changes=[change for change in result.changes if not isinstance(change, FileChanged)],
                changed_files=[change.path for change in files],
                messages=messages,
            )
        )
        git = _find_git_change(call, result)
        kept = [(each.result_id, each.whole) for each in further if each.result_id and each.whole]
        of_session = next(filter(None, map(find_record_change, result.changes)), None)
        sent = next((change for change in result.changes if isinstance(change, BriefSent)), None)
        ended = CompletedCall(call, reads.added, files, git, shown.whole, messages, kept, of_session)
        self.writer.end_call(run, ended if sent is None else _add_brief(ended, sent))

    def end_stopped(self, run: CallRun, words: str) -> None:
        """End a call that was cancelled; what it had printed may be all that is known of its effect."""
        output = _build_stopped_output(run)
        printed = _render_printed(run, output)
        shown = f"{words}\nIt had printed:\n{printed}" if printed else words
        as_json = cut_fields(output.model_dump(mode="json", by_alias=True)) if output is not None else None
        self.end_with_error(run, shown, output=as_json)

    def end_with_error(self, run: CallRun, words: str, code: int | None = None, output: Any = None) -> None:
        before, tool = run.stage, run.tool
        shown = limit_result(tool, [text_block(f"<tool_use_error>{words}</tool_use_error>")], self.results)
        call = before.call.changed(
            status="completed",
            is_error=True,
            error_code=code,
            output=output,
            content=shown.blocks,
            result_id=shown.result_id,
        )
        run.reach(Ended(call, tool, has_run=isinstance(before, Running), had_effect=run.has_effect))
        self.writer.end_call(run, CompletedCall(call, whole_result=shown.whole))

    def _end_denied(self, run: CallRun, denied: Denied) -> None:
        assert isinstance(run.stage, Parsed)
        parsed = run.reach(replace(run.stage, call=run.call.changed(decision=denied.verdict.to_decision())))
        denial = Denial(
            tool=parsed.tool.name,
            input=cut_fields(parsed.call.input, 2000),
            reason=denied.verdict.reason or denied.words,
            allow_with=denied.verdict.allow_with,
        )
        self.state.add_denial(denial)
        self.session.add_denial(denial)
        self.end_with_error(run, denied.words, parsed.tool.permissions.denied_code)

    # Step 9.

    async def _run_post_hooks(self, run: CallRun, ended: Ended) -> None:
        """PostToolUse or PostToolUseFailure hooks, and those of the files that the call has changed."""
        call = ended.call
        event = "PostToolUseFailure" if call.is_error else "PostToolUse"
        hooks = SessionHooks(self.session, call.turn_id)
        if not run.post_hooks_ran and self.session.hooks.has_hooks_for(event, call.tool):
            run.notes.add(await hooks.fire_for_call(event, call, tool_response=build_tool_response(call)))
        for path in ended.changed_files:
            await hooks.fire_file_changed(path)

    def record_end(self, run: CallRun) -> None:
        """Record the metrics of a call that is over."""
        run.spans.end()
        call = run.call
        # A name that no tool has is the model's invention: each would be a metric of its own for ever.
        name = run.tool.name if run.tool is not None else "unknown"
        self.counts.note(name, "error" if call.is_error else "ok", run.spans.taken)
        if call.decision is not None:
            self.counts.note_decision(call.decision)
        self.counts.cancelled += run.stop_words is not None
        logs.log.debug(
            "tool_finished",
            session=call.session_id,
            call=call.call_id,
            tool=name,
            is_error=call.is_error,
            seconds=run.spans.taken,
        )


def _allows_parts(rule: str, call: Call) -> bool:
    """Whether a rule allows a command by its parts: of one that is the whole line a person has seen every word."""
    return "(" in rule and rule != f"{call.tool}({str(call.input.get('command', '')).strip()})"


def _add_brief(ended: CompletedCall, sent: BriefSent) -> CompletedCall:
    call_id = ended.call.call_id
    brief = Brief(
        call_id=call_id,
        message=sent.message,
        attachments=list(sent.attachments),
        status=sent.status,
        sent_at=sent.sent_at,
    )
    return replace(ended, brief=brief, sent_files=[build_file_record(file, ended.call.tool) for file in sent.files])


def _find_git_change(call: Call, result: ToolResult[Any]) -> GitChange | None:
    """What a command did to a git repository, for the log; the session applies it in the order of the calls."""
    found = next((change for change in result.changes if isinstance(change, GitChanged)), None)
    return GitChange.model_validate({"call_id": call.call_id, **found.facts}) if found else None


def _build_stopped_output(run: CallRun) -> BaseModel | None:
    """The tool's output for a call that was stopped after it had begun; None where there is none."""
    if not isinstance(run.stage, Running):
        return None
    return run.stage.tool.shell.stopped(run.partial_output.text, run.measure_ms())


def _render_printed(run: CallRun, output: BaseModel | None) -> str:
    """What a stopped call had printed, rendered as it would have been at its end."""
    if run.tool is None or output is None:
        return run.partial_output.text.strip()
    return "\n".join(block.get("text", "") for block in run.tool.render(output)).strip()
