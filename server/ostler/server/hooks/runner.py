"""Runs the hooks of a session: selects those that match an event, runs them concurrently, merges their answers."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import anyio
import orjson

from ostler.protocol.errors import ProtocolError
from ostler.server.hooks import http, prompt, python
from ostler.server.hooks.answers import HookFailure, Reply, read_answer
from ostler.server.hooks.command import CommandContext, run_command
from ostler.server.hooks.events import find_matched_value
from ostler.server.hooks.merge import AnsweredHook, build_answered_hook, merge
from ostler.server.hooks.prompt import AskModel
from ostler.server.hooks.types import NO_OUTCOME, Hook, HookCall, Outcome
from ostler.tools.services import Processes

MAX_CONCURRENT: Final = 20
_NEED_TRUST: Final = frozenset({"project", "local"})
_CHANGED: Final = "a script of the project is another one than when the folder was trusted: that is asked again"
MatchesRule = Callable[[str, str, Mapping[str, Any]], Awaitable[bool]]
"""Whether a permission rule matches a tool with an input."""


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
        is_unchanged: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._by_event: dict[str, list[Hook]] = {}
        for hook in hooks:
            self._by_event.setdefault(hook.event, []).append(hook)
        self._matches_rule = matches_rule
        self._command_context = CommandContext(folder, environment, processes, umask)
        self._ask_model = ask_model
        self._is_unchanged = is_unchanged
        self._limiter = anyio.CapacityLimiter(MAX_CONCURRENT)

    def has_hooks_for(self, event: str, tool: str | None = None) -> bool:
        """Whether any hook may run for an event; most sessions have none."""
        hooks = self._by_event.get(event)
        return bool(hooks) and (tool is None or any(hook.matches(tool) for hook in hooks or ()))

    async def run(self, call: HookCall) -> Outcome:
        """Runs all hooks of the event to their ends. Raises only where something cannot be stored that must be."""
        selected = await self._select_hooks(call)
        if not selected:
            return NO_OUTCOME
        tool_input = call.payload.get("tool_input")
        payload = _encode_payload({**call.payload, "hook_event_name": call.event})
        done: dict[int, AnsweredHook] = {}
        troubles: list[ProtocolError] = []

        async def run_one(number: int, hook: Hook) -> None:
            try:
                async with self._limiter:
                    done[number] = await self._run_hook(hook, payload)
            except ProtocolError as error:
                troubles.append(error)

        async with anyio.create_task_group() as group:
            for number, hook in enumerate(selected):
                group.start_soon(run_one, number, hook)
        if troubles:
            raise troubles[0]
        in_order = [done[number] for number in range(len(selected))]
        return merge(tool_input if isinstance(tool_input, Mapping) else {}, in_order)

    async def _select_hooks(self, call: HookCall) -> list[Hook]:
        hooks = self._by_event.get(call.event)
        if not hooks:
            return []
        value = find_matched_value(call.event, call.payload)
        chosen: dict[tuple[Any, ...], Hook] = {}
        for declared in hooks:
            hook = await self._check_condition(declared, call) if declared.matches(value) else None
            # The same in several files is run once; the policy's one is the strictest about it.
            if hook and (hook.identity not in chosen or hook.must_run):
                chosen[hook.identity] = hook
        return list(chosen.values())

    async def _check_condition(self, hook: Hook, call: HookCall) -> Hook | None:
        if hook.condition is None:
            return hook
        tool_input = call.payload.get("tool_input")
        tool = str(call.payload.get("tool_name", ""))
        try:
            given = tool_input if isinstance(tool_input, Mapping) else {}
            applies = await self._matches_rule(hook.condition, tool, given)
        except Exception as error:  # noqa: BLE001 - a boundary: a rule that cannot be told is a hook that cannot be run
            return replace(hook, broken=f"the rule of `if`, {hook.condition!r}, cannot be told: {error}")
        return hook if applies else None

    async def _run_hook(self, hook: Hook, payload: bytes) -> AnsweredHook:
        began = time.perf_counter()
        reply = await self._dispatch(hook, payload)
        took = round((time.perf_counter() - began) * 1000)
        return build_answered_hook(hook, reply, read_answer(hook.event, reply), took)

    async def _dispatch(self, hook: Hook, payload: bytes) -> Reply:
        if hook.broken is not None:
            return HookFailure(hook.broken)
        if hook.kind == "command" and hook.source in _NEED_TRUST and not await self._has_trusted_scripts():
            return HookFailure(_CHANGED)
        match hook.kind:
            case "command":
                return await run_command(hook, payload, self._command_context)
            case "http":
                return await http.post_payload(hook, payload, self._command_context.environment)
            case "prompt":
                return await prompt.run_prompt(hook, payload, self._ask_model)
            case "python":
                return await python.run_callable(hook, payload)

    async def _has_trusted_scripts(self) -> bool:
        return self._is_unchanged is None or await self._is_unchanged()


def _encode_payload(payload: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(payload)
    except TypeError:
        # Half a surrogate pair, or a number of more than 64 bits: a model can write both.
        return json.dumps(payload, default=str).encode()
