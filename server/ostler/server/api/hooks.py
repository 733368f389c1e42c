"""The hook methods: list."""

from dataclasses import dataclass

from ostler.protocol.hook import HookEntry, HookList, HookPage
from ostler.protocol.methods import HOOK_LIST
from ostler.protocol.rule import SettingsProblem
from ostler.server.engine.engine import Engine
from ostler.server.hooks import Hook
from ostler.server.rpc.paging import page_by_place


@dataclass(frozen=True, slots=True)
class HookMethods:
    engine: Engine

    async def list(self, params: HookList) -> HookPage:
        live = (await self.engine.actor(params.session_id)).live
        await self.engine.arranger.arrange(live)
        room = self.engine.rooms.settings
        every, problems = await room.hooks(live.settings, True)
        acting, _ = await room.hooks(live.settings, live.trusted)
        labels = {hook.label for hook in acting}
        entries = [_entry(hook, acts=hook.label in labels) for hook in every]
        page, token = page_by_place(HOOK_LIST.name, params, entries)
        told = [SettingsProblem(file="", line=0, column=0, message=problem) for problem in problems]
        return HookPage(hooks=page, problems=told, next=token)


def _entry(hook: Hook, *, acts: bool) -> HookEntry:
    return HookEntry(
        event=hook.event,
        name=hook.name,
        kind=hook.kind,
        shown=hook.shown,
        matcher=hook.matcher,
        condition=hook.condition,
        timeout_ms=round(hook.timeout_seconds * 1000),
        source=hook.source,
        file=hook.file,
        acts=acts and hook.broken is None,
        problem=hook.broken,
    )
