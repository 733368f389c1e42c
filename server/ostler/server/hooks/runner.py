"""All hooks of one session: which of them a moment is for, run together, merged."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import anyio
import orjson

from ostler.protocol.errors import ProtocolError
from ostler.server.hooks import http, prompt, python
from ostler.server.hooks.answers import Broke, Reply, read_answer
from ostler.server.hooks.command import Place, run_command
from ostler.server.hooks.events import matched_value
from ostler.server.hooks.merge import Answered, answered, merge
from ostler.server.hooks.prompt import AskModel
from ostler.server.hooks.types import NOTHING, Hook, HookCall, Outcome
from ostler.tools.services import Processes

AT_ONCE: Final = 20
MatchesRule = Callable[[str, str, Mapping[str, Any]], bool]
"""Whether a permission rule speaks of a tool with an input."""


class HookRunner:
    """The hooks of a session. Immutable: when settings change, another one takes its place."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        *,
        matches_rule: MatchesRule,
        environment: Mapping[str, str],
        folder: str,
        processes: Processes,
        ask_model: AskModel | None = None,
        umask: int = 0o022,
    ) -> None:
        self._by_event: dict[str, list[Hook]] = {}
        for hook in hooks:
            self._by_event.setdefault(hook.event, []).append(hook)
        self._matches_rule = matches_rule
        self._place = Place(folder, environment, processes, umask)
        self._ask_model = ask_model
        self._room = anyio.CapacityLimiter(AT_ONCE)

    def any_for(self, event: str, tool: str | None = None) -> bool:
        """Whether it is worth making a call; most sessions have no hooks."""
        hooks = self._by_event.get(event)
        return bool(hooks) and (tool is None or any(hook.matches(tool) for hook in hooks or ()))

    async def run(self, call: HookCall) -> Outcome:
        """Runs all hooks of the moment to their ends. Raises only where the disk does not take what it must."""
        selected = self._selected(call)
        if not selected:
            return NOTHING
        given = call.payload.get("tool_input")
        payload = _encoded({**call.payload, "hook_event_name": call.event})
        done: dict[int, Answered] = {}
        troubles: list[ProtocolError] = []

        async def run_one(number: int, hook: Hook) -> None:
            try:
                async with self._room:
                    done[number] = await self._one(hook, payload)
            except ProtocolError as error:
                troubles.append(error)

        async with anyio.create_task_group() as group:
            for number, hook in enumerate(selected):
                group.start_soon(run_one, number, hook)
        if troubles:
            raise troubles[0]
        in_order = [done[number] for number in range(len(selected))]
        return merge(given if isinstance(given, Mapping) else {}, in_order)

    def _selected(self, call: HookCall) -> list[Hook]:
        hooks = self._by_event.get(call.event)
        if not hooks:
            return []
        value = matched_value(call.event, call.payload)
        chosen: dict[tuple[Any, ...], Hook] = {}
        for declared in hooks:
            hook = self._if_it_applies(declared, call) if declared.matches(value) else None
            # The same in several files is run once; the policy's one is the strictest about it.
            if hook and (hook.work not in chosen or hook.must_run):
                chosen[hook.work] = hook
        return list(chosen.values())

    def _if_it_applies(self, hook: Hook, call: HookCall) -> Hook | None:
        if hook.condition is None:
            return hook
        given = call.payload.get("tool_input")
        tool = str(call.payload.get("tool_name", ""))
        try:
            applies = self._matches_rule(hook.condition, tool, given if isinstance(given, Mapping) else {})
        except Exception as error:  # noqa: BLE001 - a boundary: a rule that cannot be told is a hook that cannot be run
            return replace(hook, broken=f"the rule of `if`, {hook.condition!r}, cannot be told: {error}")
        return hook if applies else None

    async def _one(self, hook: Hook, payload: bytes) -> Answered:
        began = time.perf_counter()
        reply = await self._reply(hook, payload)
        took = round((time.perf_counter() - began) * 1000)
        return answered(hook, reply, read_answer(hook.event, reply), took)

    async def _reply(self, hook: Hook, payload: bytes) -> Reply:
        if hook.broken is not None:
            return Broke(hook.broken)
        match hook.kind:
            case "command":
                return await run_command(hook, payload, self._place)
            case "http":
                return await http.post(hook, payload, self._place.environment)
            case "prompt":
                return await prompt.ask(hook, payload, self._ask_model)
            case "python":
                return await python.call(hook, payload)


def _encoded(payload: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(payload)
    except TypeError:
        # Half a surrogate pair, or a number of more than 64 bits: a model can write both.
        return json.dumps(payload, default=str).encode()
