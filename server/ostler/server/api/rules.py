"""The handlers of the rule methods: list, add, remove, explain."""

from dataclasses import dataclass
from typing import Final

from ostler.protocol.errors import InvalidParams, ToolNotFound
from ostler.protocol.ids import CallId
from ostler.protocol.methods import RULE_LIST
from ostler.protocol.rule import (
    ExplainedEffects,
    ExplainedPart,
    Explanation,
    FileEffect,
    RuleAdd,
    RuleEntry,
    RuleExplain,
    RuleList,
    RulePage,
    RuleRemove,
    SettingsProblem,
)
from ostler.server.classifier import Opinion
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.calls.parse_input import BadInput, parse_input
from ostler.server.engine.engine import Engine
from ostler.server.engine.permissions.decide import Case, decide
from ostler.server.engine.rule_changes import RuleChange, check_rule, forget_rule, remember_rule
from ostler.server.engine.session.live import LiveSession
from ostler.server.rpc.paging import paginate_list
from ostler.server.settings import Problem, SourcedRule, check_lists
from ostler.tools import commands
from ostler.tools.call_subject import find_path, find_rule_text, find_subject
from ostler.tools.context import ToolContext
from ostler.tools.fs.paths import make_printable
from ostler.tools.permissions.subject import AccessedPath, CommandSubject
from ostler.tools.services import FileServices, Services
from ostler.tools.shell.bash_policy import parse_command
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import AnyTool, AskFirst, Check, ToolInput

_MAX_EFFECTS: Final = 100


@dataclass(frozen=True, slots=True)
class RuleMethods:
    engine: Engine

    async def list(self, params: RuleList, actor: SessionActor) -> RulePage:
        await self.engine.settings_loader.load(actor.live)
        page, token = paginate_list(RULE_LIST.name, params, _list_entries(actor.live))
        return RulePage(rules=page, problems=build_problems(actor.live.settings.problems), next=token)

    async def add(self, params: RuleAdd, actor: SessionActor) -> RuleEntry:
        text = check_rule(params.rule)
        known = [name for tool in (await self.engine.load_registry()).tools for name in (tool.name, *tool.aliases)]
        if problems := check_lists({params.behavior: [text]}, known):
            raise InvalidParams.of("rule", problems[0])
        return await remember_rule(actor, RuleChange(params.behavior, text, params.scope, params.expires_at))

    async def remove(self, params: RuleRemove, actor: SessionActor) -> RuleEntry:
        return await forget_rule(actor, RuleChange(params.behavior, params.rule.strip(), params.scope))

    async def explain(self, params: RuleExplain, actor: SessionActor) -> Explanation:
        """What would be done with a call now, without doing it; hooks are not run, nor is a model asked."""
        live = actor.live
        await self.engine.settings_loader.load(live)
        tool = live.build_toolset().find(params.tool)
        if isinstance(tool, str):
            if params.tool not in {each.name for each in (await self.engine.load_registry()).tools}:
                raise ToolNotFound(params.tool)
            return Explanation(behavior="deny", by="tool", reason=tool)
        try:
            parsed_input, _ = parse_input(tool, params.input, params.tool)
        except BadInput as error:
            raise InvalidParams.of("input", str(error)) from None
        return await _explain_call(live, tool, parsed_input)


async def _explain_call(live: LiveSession, tool: AnyTool, parsed_input: ToolInput) -> Explanation:
    context = ToolContext(
        call_id=CallId("explained"),
        session=live.view,
        services=Services(FileServices(live.reads.create_recorder()), live.processes),
        progress=lambda kind, data: None,
        output_folder=live.shared.output_folder,
    )
    invalid = await tool.validate(parsed_input, context)
    if invalid is not None:
        return Explanation(
            behavior="deny",
            by="tool",
            reason=invalid.message,
            parts=await read_in_thread(_explain_parts, tool, parsed_input),
        )
    check: Check = await tool.check_permission(parsed_input, context)
    subject = await find_subject(tool, parsed_input, live.view)
    # Where the chain comes to what was approved with a plan, that is said, and no model asked.
    grants: list[str] = []

    async def note_grants() -> Opinion:
        grants.extend(live.permission.grants)
        return Opinion("ask", "", "")

    verdict = await decide(Case(tool, parsed_input, check, subject, judge_grants=note_grants), live.permission)
    return Explanation(
        behavior=verdict.behavior,
        by=verdict.by,
        rule=verdict.rule,
        source=verdict.source,
        read_only=verdict.by == "read_only" or (tool.is_read_only(parsed_input) and not tool.shell.runs_commands),
        reason=verdict.reason or (check.reason if isinstance(check, AskFirst) else ""),
        parts=await read_in_thread(_explain_parts, tool, parsed_input),
        effects=_explain_effects(subject) if isinstance(subject, CommandSubject) else None,
        grants=grants,
    )


def _explain_effects(subject: CommandSubject) -> ExplainedEffects:
    # Changes first: of many files these matter most.
    places = sorted(subject.paths, key=lambda place: not place.writes)
    return ExplainedEffects(
        files=[_explain_place(place) for place in places[:_MAX_EFFECTS]],
        left_out=max(0, len(places) - _MAX_EFFECTS),
        unknown=subject.unknown,
        unknown_reads=subject.unknown_reads,
        unknown_writes=subject.unknown_writes,
        shows_repository=bool(subject.repositories),
    )


def _explain_place(place: AccessedPath) -> FileEffect:
    path, written = make_printable(place.real), make_printable(place.written)
    return FileEffect(action=place.action, path=path, written=written if written != path else None, deep=place.deep)


def _explain_parts(tool: AnyTool, parsed_input: ToolInput) -> list[ExplainedPart]:
    if not tool.shell.runs_commands or find_path(tool, parsed_input) is not None:
        return []
    read = parse_command(find_rule_text(tool, parsed_input))
    return [
        ExplainedPart(text=part.text, read_only=why is None, reason=why) for part, why in commands.explain_parts(read)
    ]


def _list_entries(live: LiveSession) -> list[RuleEntry]:
    counting = {id(rule) for rule in live.rules.rules}
    others = [rule for rule in live.settings.rules if id(rule) not in counting]
    return [
        *(_build_entry(rule, counts=True) for rule in live.rules.rules),
        *(_build_entry(rule, counts=False) for rule in others),
    ]


def _build_entry(rule: SourcedRule, *, counts: bool) -> RuleEntry:
    return RuleEntry(
        behavior=rule.behavior,
        rule=rule.rule.text,
        source=rule.source,
        file=rule.file,
        expires_at=rule.expires_at,
        counts=counts,
    )


def build_problems(problems: tuple[Problem, ...]) -> list[SettingsProblem]:
    return [
        SettingsProblem(file=each.file, line=each.line, column=each.column, message=each.message) for each in problems
    ]
