"""Hooks: what people let run at certain moments of a session, to decide, to add or to watch."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import lazily

if TYPE_CHECKING:
    from ostler.server.hooks.events import EVENTS
    from ostler.server.hooks.parsing import parse_hooks
    from ostler.server.hooks.plugins import hook, plugin_hooks
    from ostler.server.hooks.runner import HookRunner
    from ostler.server.hooks.types import NOTHING, Hook, HookCall, HookRun, Outcome, Problem, Replaced, hook_rows

__all__ = [
    "EVENTS",
    "NOTHING",
    "Hook",
    "HookCall",
    "HookRun",
    "HookRunner",
    "Outcome",
    "Problem",
    "Replaced",
    "hook",
    "hook_rows",
    "parse_hooks",
    "plugin_hooks",
]

__getattr__ = lazily(
    __name__,
    {
        "EVENTS": "events",
        "Hook": "types",
        "HookCall": "types",
        "HookRun": "types",
        "HookRunner": "runner",
        "NOTHING": "types",
        "Outcome": "types",
        "Problem": "types",
        "Replaced": "types",
        "hook": "plugins",
        "hook_rows": "types",
        "parse_hooks": "parsing",
        "plugin_hooks": "plugins",
    },
)
