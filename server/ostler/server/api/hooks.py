"""The handlers of the hook methods: list."""

from dataclasses import dataclass

from ostler.protocol.hook import HookEntry, HookList, HookPage
from ostler.protocol.methods import HOOK_LIST
from ostler.protocol.rule import SettingsProblem
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.engine import Engine
from ostler.server.hooks import Hook
from ostler.server.rpc.paging import paginate_list


@dataclass(frozen=True, slots=True)
class HookMethods:
    engine: Engine

    async def list(self, params: HookList, actor: SessionActor) -> HookPage:
        live = actor.live
        await self.engine.settings_loader.load(live)
        cache = self.engine.shared.settings
        every, problems = await cache.load_hooks(live.settings, True)
        acting, _ = await cache.load_hooks(live.settings, live.trusted)
        labels = {hook.label for hook in acting}
        entries = [_build_entry(hook, acts=hook.label in labels) for hook in every]
        page, token = paginate_list(HOOK_LIST.name, params, entries)
        reported = [SettingsProblem(file="", line=0, column=0, message=problem) for problem in problems]
        return HookPage(hooks=page, problems=reported, next=token)


def _build_entry(hook: Hook, *, acts: bool) -> HookEntry:
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
