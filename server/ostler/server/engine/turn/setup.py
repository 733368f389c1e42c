"""What a turn begins with: its settings, its tools and prompt, and the message that opens it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from ostler.protocol import times
from ostler.protocol.errors import BudgetExceeded, InvalidParams
from ostler.protocol.ids import TurnId, new_message_id
from ostler.protocol.session import OnAsk
from ostler.protocol.shapes import Message, Turn, Usage
from ostler.protocol.turn import Input, InputText, TurnOptions
from ostler.server.engine.asks.trust import trust_is_settled
from ostler.server.engine.journal.journal import Said
from ostler.server.engine.session.history import plain
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.turn.environment_updates import told_facts, with_opening
from ostler.server.engine.turn.limits import Limits
from ostler.server.engine.turn.options import Services, TurnSettings
from ostler.server.engine.turn.prompt_prefix import Prefix, make_prefix
from ostler.server.prompt.environment import Facts
from ostler.server.prompt.mentions import expand
from ostler.server.prompt.reminders import INTERRUPTED, changes, is_ours
from ostler.server.prompt.system_prompt import system_prompt
from ostler.tools.interaction.structured_output import BadSchema, StructuredOutput
from ostler.tools.registry import ToolSet

NO_RESULT: Final = "No result: the session was forked here, before the call had one."


@dataclass(frozen=True, slots=True)
class Preparing:
    """Makes the turns of one session ready."""

    live: LiveSession
    services: Services
    config_folder: Path

    def check(self, options: TurnOptions) -> None:
        """What a client can mend is refused before the turn begins."""
        model = options.model or self.live.record.model
        budget = options.max_budget_usd or self.live.record.options.get("max_budget_usd")
        if budget is not None and self.services.cost(model, Usage()) is None:
            raise BudgetExceeded(
                f"The price of {model} is not known, so a budget cannot be held against it. "
                f"Set model.prices in config.toml, or leave the budget out.",
                model=model,
            )
        answer_tools(options.output_schema)

    def settings(self, options: TurnOptions, on_ask: OnAsk | None) -> TurnSettings:
        most = self.services.config().turns.max_requests
        return TurnSettings(
            model=options.model or self.live.record.model,
            max_requests=min(options.max_requests or most, most),
            max_budget_usd=options.max_budget_usd,
            timeout_ms=options.timeout_ms,
            thinking=options.thinking,
            tool_choice=options.tool_choice,
            output_schema=options.output_schema,
            on_ask=on_ask,
        )

    async def input_blocks(self, given: Input) -> list[dict[str, Any]]:
        blocks = [InputText(text=given)] if isinstance(given, str) else given
        surroundings = self.live.surroundings
        expanded = await expand(blocks, surroundings.folder, surroundings.roots)
        if not expanded:
            raise InvalidParams.of("input", "says nothing")
        return expanded

    async def tools_and_prompt(self, settings: TurnSettings, facts: Facts) -> tuple[ToolSet, Prefix, dict[str, Any]]:
        """The tools of this turn, and the prompt, which is made once; and what is to be remembered of both."""
        toolset = self.live.toolset(*answer_tools(settings.output_schema))
        system = self.live.state.get("system")
        if system is None:
            names = [tool.name for tool in toolset.tools]
            instructions = self.live.record.options.get("instructions")
            system = await system_prompt(facts, settings.model, names, instructions, config=self.config_folder)
        state = {**self.live.state, "system": system, **with_opening(self.live, facts)}
        return toolset, make_prefix(system, toolset, self.live.surroundings), state

    def opening(
        self,
        turn_id: TurnId,
        facts: Facts,
        task_news: Iterable[str],
        blocks: list[dict[str, Any]],
        last_reason: str | None,
    ) -> Said:
        """The first message of a turn: what the model has to know before it, and then the input."""
        news = [{"type": "text", "text": each} for each in (*self._news(facts, last_reason), *task_news)]
        message = Message.model_validate(
            {
                "id": new_message_id(),
                "session_id": self.live.record.id,
                "turn_id": turn_id,
                "role": "user",
                "content": [*self._missing_results(), *news, *blocks],
                "created_at": times.now(),
            }
        )
        return said(message)

    def asks_at_once(self, turn: Turn, settings: TurnSettings) -> bool:
        """Whether nothing stands between the input and the first request: no limit, no question of trust, no hook."""
        live, hooks = self.live, self.live.hooks
        if Limits(live, self.services, settings).reached(turn, settings.model) is not None:
            return False
        hears = hooks.any_for("UserPromptSubmit") or (not live.began and hooks.any_for("SessionStart"))
        return trust_is_settled(live) and not hears

    def _missing_results(self) -> list[dict[str, Any]]:
        return [
            {"type": "tool_result", "tool_use_id": one, "content": NO_RESULT, "is_error": True}
            for one in self.live.history.unanswered()
        ]

    def _news(self, facts: Facts, last_reason: str | None) -> list[str]:
        """What has changed since the model was last told."""
        told = told_facts(self.live)
        if told is None:
            return []
        stopped = [] if last_reason in {None, "completed"} else [INTERRUPTED]
        return [*stopped, *changes(told, facts)]


def said(message: Message) -> Said:
    blocks = plain(message.content)
    return Said(message, blocks, orjson.dumps(blocks), {})


def words(blocks: list[dict[str, Any]]) -> str:
    """What the person said, without what we put around it."""
    texts = (block.get("text", "") for block in blocks if block.get("type") == "text")
    return "\n".join(text for text in texts if not is_ours(text))


def answer_tools(schema: dict[str, Any] | None) -> list[StructuredOutput]:
    """The tool by which a turn gives its answer in the form asked for, where one was."""
    if schema is None:
        return []
    try:
        return [StructuredOutput(schema)]
    except BadSchema as error:
        raise InvalidParams.of("output_schema", str(error)) from None
