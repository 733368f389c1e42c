"""The handler of `session/prompt`: what a session sends before its conversation, by part."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import orjson

from ostler.protocol.prompt import PromptPart, SessionPrompt
from ostler.protocol.session import SessionRef
from ostler.protocol.turn import TurnOptions
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.engine import Engine
from ostler.server.engine.turn.environment_updates import load_sent_facts, read_session_facts
from ostler.tools.token_estimate import BYTES_PER_TOKEN

_HEADINGS: Final = {
    "not_loaded": "# Tools that are not loaded",
    "role": "# You are an agent",
    "place": "# Where you are",
    "instructions": "# Instruction files",
    "person": "# From the person who started this session",
    "memory": "# Memory",
}
"""What the parts begin with, in their order."""
_FILE: Final = re.compile(r'<ostler-instructions id="(\w+)".*?</ostler-instructions id="\1">', re.DOTALL)


@dataclass(frozen=True, slots=True)
class PromptMethods:
    engine: Engine

    async def prompt(self, params: SessionRef, actor: SessionActor) -> SessionPrompt:
        live = actor.live
        await self.engine.settings_loader.load(live)
        settings = actor.turn_setup.build_settings(TurnOptions(input="."), None)
        facts = load_sent_facts(live) or await read_session_facts(live)
        _, prefix, state = await actor.turn_setup.build_tools_and_prompt(settings, facts)
        takes_extras = self.engine.services.provider(settings.model).takes_extras(settings.model)
        parts = [_build_part(name, text) for name, text in split_prompt(state["system"])]
        for tool in orjson.loads(prefix.tools_with_extras if takes_extras else prefix.tools):
            part = _build_part(f"tool:{tool['name']}", orjson.dumps(tool).decode())
            # What is sent to be loaded later takes nothing of the window.
            parts.append(part.model_copy(update={"tokens": 0}) if tool.get("defer_loading") else part)
        return SessionPrompt(sent="system" in live.state, tokens=sum(part.tokens for part in parts), parts=parts)


def split_prompt(system: str) -> Iterator[tuple[str, str]]:
    """The parts of a system prompt, by their headings; what stands in an instruction file is no heading."""
    bare = _FILE.sub(lambda found: " " * len(found[0]), system)
    starts = [("rules", 0)]
    for name, heading in _HEADINGS.items():
        at = bare.find(f"\n\n{heading}\n", starts[-1][1])
        if at >= 0:
            starts.append((name, at + 2))
    for number, (name, start) in enumerate(starts):
        end = starts[number + 1][1] if number + 1 < len(starts) else len(system)
        yield name, system[start:end].strip()


def _build_part(name: str, text: str) -> PromptPart:
    return PromptPart(name=name, tokens=-(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN), text=text)
