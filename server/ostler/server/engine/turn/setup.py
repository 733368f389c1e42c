"""Sets up a turn: checks its options, and builds its settings, its tools and prompt, and its first user message."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from ostler.protocol import times
from ostler.protocol.errors import BudgetExceeded, Conflict, InvalidParams
from ostler.protocol.ids import TurnId, new_message_id
from ostler.protocol.session import OnAsk
from ostler.protocol.shapes import Message, Turn, Usage
from ostler.protocol.turn import Input, InputText, TurnOptions
from ostler.server.engine.asks.trust import is_trust_settled
from ostler.server.engine.discovery.skills import build_skill_state, describe_skill_changes, expand_command
from ostler.server.engine.discovery.tool_adapter import build_deferred_state, describe_new_deferred
from ostler.server.engine.journal.messages import StoredUserMessage
from ostler.server.engine.servers.turn_servers import must_wait_for_servers
from ostler.server.engine.session.effective_settings import SKILL_LIST, check_mode
from ostler.server.engine.session.history import dump_blocks
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.todos.reminders import describe_edits
from ostler.server.engine.turn.environment_updates import build_input_state, load_sent_facts
from ostler.server.engine.turn.limits import Limits
from ostler.server.engine.turn.options import TurnServices, TurnSettings
from ostler.server.engine.turn.prompt_prefix import Prefix, make_prefix, repeat_prefix
from ostler.server.prompt.agent_kinds import render_role
from ostler.server.prompt.environment import EnvironmentFacts
from ostler.server.prompt.memory import find_folders, render_memory
from ostler.server.prompt.mentions import expand
from ostler.server.prompt.reminders import INTERRUPTED, ask_for_form, describe_changes, is_ours
from ostler.server.prompt.system_prompt import build_system_prompt
from ostler.server.settings import SkillEntry
from ostler.server.settings.locations import list_project_folders
from ostler.tools.discovery.deferral import group_deferred
from ostler.tools.fs.similar_paths import build_path_filter
from ostler.tools.interaction.structured_output import BadSchema, StructuredOutput
from ostler.tools.registry import ToolSet
from ostler.tools.services import SkillRefused
from ostler.tools.threads import read_in_thread
from ostler.tools.token_estimate import BYTES_PER_TOKEN

_SKILLS_SHARE: Final = 0.01
"""Of the window, for the list of skills."""
NO_RESULT: Final = "No result: the session was forked here, before the call had one."


@dataclass(frozen=True, slots=True)
class ExpandedInput:
    """Input as the model is sent it."""

    blocks: list[dict[str, Any]]
    skill: SkillEntry | None = None
    """The skill that it takes up."""


@dataclass(frozen=True, slots=True)
class TurnSetup:
    """Sets up the turns of one session."""

    live: LiveSession
    services: TurnServices
    config_file: Path

    def check(self, options: TurnOptions) -> None:
        """Refuse options that the client can correct, before the turn begins."""
        if options.mode is not None:
            allow_bypass = self.services.config().permissions.allow_bypass
            check_mode(options.mode, self.live.shared.settings.limits, self.config_file, allow_bypass=allow_bypass)
        model = options.model or self.live.record.model
        budget = options.max_budget_usd or self.live.record.options.get("max_budget_usd")
        if budget is not None and self.services.cost(model, Usage()) is None:
            raise BudgetExceeded(
                f"The price of {model} is not known, so a budget cannot be held against it. "
                f"Set model.prices in config.toml, or leave the budget out.",
                model=model,
            )
        build_answer_tools(options.output_schema)

    def build_settings(self, options: TurnOptions, on_ask: OnAsk | None) -> TurnSettings:
        max_requests = self.services.config().turns.max_requests
        return TurnSettings(
            model=options.model or self.live.record.model,
            max_requests=min(options.max_requests or max_requests, max_requests),
            max_budget_usd=options.max_budget_usd,
            timeout_ms=options.timeout_ms,
            thinking=options.thinking,
            tool_choice=options.tool_choice,
            output_schema=options.output_schema,
            on_ask=on_ask,
            wait_for_agents=options.wait_for_agents,
        )

    async def expand_input(self, user_input: Input) -> ExpandedInput:
        """The input as content blocks, with its mentions of files and a skill that it begins with expanded."""
        blocks = [InputText(text=user_input)] if isinstance(user_input, str) else list(user_input)
        view = self.live.view
        try:
            command = await expand_command(self.live, blocks)
        except SkillRefused as refused:
            raise Conflict(str(refused)) from None
        rest = blocks if command is None else blocks[1:]
        mentioned = await expand(rest, view.folder, view.roots, build_path_filter(view, allowed=False))
        expanded = [*(command.blocks if command is not None else ()), *mentioned]
        if not expanded:
            raise InvalidParams.of("input", "says nothing")
        return ExpandedInput(expanded, command.entry if command is not None else None)

    async def build_tools_and_prompt(
        self, settings: TurnSettings, facts: EnvironmentFacts
    ) -> tuple[ToolSet, Prefix, dict[str, Any]]:
        """The tools of the turn, the prompt prefix (its system prompt is built once), and the session state to keep."""
        answers = bool(self.live.state.get("structured_output")) or settings.output_schema is not None
        toolset = self.live.build_toolset(*(build_answer_tools(settings.output_schema, always=answers)))
        deferral = self.live.deferral
        system = self.live.state.get("system")
        if system is None:
            names = [tool.name for tool in toolset.tools]
            instructions = self.live.record.options.get("instructions")
            agent = self.live.agent
            role = render_role(agent.instructions) if agent is not None else None
            config = self.config_file.parent
            system = await build_system_prompt(
                facts,
                settings.model,
                names,
                instructions,
                role=role,
                deferred=group_deferred(toolset, deferral),
                config=config,
            )
            system = await self._add_memory(system)
        state = {
            **self.live.state,
            "system": system,
            **build_input_state(self.live, facts),
            **deferral.to_state(),
            **build_deferred_state(self.live, toolset, deferral),
            **build_skill_state(self.live, self._get_skill_chars(settings.model)),
        }
        view = replace(self.live.view, skill_list=state[SKILL_LIST])
        if answers:
            state["structured_output"] = True  # once sent, the tool stays
        sent: dict[str, str] | None = self.live.state.get("sent_tools")
        if sent is not None:
            return toolset, repeat_prefix(system, sent), state
        return toolset, make_prefix(system, toolset, view, deferral, self.live.history.references), state

    def _get_skill_chars(self, model: str) -> int:
        """How long the list of skills may be: one percent of the window."""
        return int(self.services.window(model) * _SKILLS_SHARE * BYTES_PER_TOKEN)

    async def _add_memory(self, system: str) -> str:
        """The prompt with the indexes of memory notes; the project's only where the folder is trusted."""
        home = self.live.shared.home
        # With the settings of a folder, which are what is trusted.
        project = list_project_folders(self.live.settings_folder)[-1] if self.live.trusted else None
        memory = await read_in_thread(lambda: render_memory(find_folders(project, home)))
        return system if memory is None else f"{system}\n\n{memory}"

    def build_input_message(
        self,
        turn_id: TurnId,
        facts: EnvironmentFacts,
        task_notifications: Iterable[str],
        blocks: list[dict[str, Any]],
        last_reason: str | None,
        output_schema: dict[str, Any] | None,
    ) -> StoredUserMessage:
        """The first user message of a turn: what has changed since the last one, and then the input."""
        form = [] if output_schema is None else [ask_for_form(orjson.dumps(output_schema).decode())]
        updates = (*self._describe_changes(facts, last_reason), *task_notifications, *form)
        update_blocks = [{"type": "text", "text": each} for each in updates]
        message = Message.model_validate(
            {
                "id": new_message_id(),
                "session_id": self.live.record.id,
                "turn_id": turn_id,
                "role": "user",
                "content": [*self._build_missing_results(), *update_blocks, *blocks],
                "created_at": times.now(),
            }
        )
        return encode_user_message(message)

    def may_request_at_once(self, turn: Turn, settings: TurnSettings) -> bool:
        """Whether the first request waits for nothing: no limit is reached, no trust is asked for, no hook runs."""
        live, hooks = self.live, self.live.hooks
        if Limits(live, self.services, settings).check(turn, settings.model) is not None:
            return False
        if live.agent is not None and len(live.history) <= live.forked_messages:
            return (
                is_trust_settled(live) and not hooks.has_hooks_for("SubagentStart") and not must_wait_for_servers(live)
            )
        has_hooks = hooks.has_hooks_for("UserPromptSubmit") or (
            not live.start_hooks_fired and hooks.has_hooks_for("SessionStart")
        )
        return is_trust_settled(live) and not has_hooks and not must_wait_for_servers(live)

    def _build_missing_results(self) -> list[dict[str, Any]]:
        return [
            {"type": "tool_result", "tool_use_id": one, "content": NO_RESULT, "is_error": True}
            for one in self.live.history.list_unanswered()
        ]

    def _describe_changes(self, facts: EnvironmentFacts, last_reason: str | None) -> list[str]:
        """Notes for the model about what has changed since the last turn."""
        sent = load_sent_facts(self.live)
        if sent is None:
            return []
        interrupted = [] if last_reason in {None, "completed"} else [INTERRUPTED]
        return [
            *interrupted,
            *describe_changes(sent, facts),
            *describe_edits(self.live),
            *describe_new_deferred(self.live),
            *describe_skill_changes(self.live),
        ]


def encode_user_message(message: Message) -> StoredUserMessage:
    """A user message with its blocks as JSON, as the history and the database have it."""
    blocks = dump_blocks(message.content)
    return StoredUserMessage(message, blocks, orjson.dumps(blocks), {})


def extract_text(blocks: list[dict[str, Any]]) -> str:
    """The person's text, without the notes that the daemon adds to it."""
    texts = (block.get("text", "") for block in blocks if block.get("type") == "text")
    return "\n".join(text for text in texts if not is_ours(text))


def build_answer_tools(schema: dict[str, Any] | None, *, always: bool = False) -> list[StructuredOutput]:
    """The tool by which the model gives its answer in the schema asked for; without one there is none, or `always`."""
    if schema is None and not always:
        return []
    try:
        return [StructuredOutput(schema)]
    except BadSchema as error:
        raise InvalidParams.of("output_schema", str(error)) from None
