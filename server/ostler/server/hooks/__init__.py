"""Hooks: what people let run at certain moments of a session, to decide, to add or to watch."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import lazily

if TYPE_CHECKING:
    from ostler.server.hooks.declaring import hook, plugin_hooks
    from ostler.server.hooks.events import EVENTS
    from ostler.server.hooks.parsing import parse_hooks
    from ostler.server.hooks.runner import HookRunner
    from ostler.server.hooks.shapes import NOTHING, Hook, HookCall, HookRun, Outcome, Problem, Replaced, hook_rows

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
        "Hook": "shapes",
        "HookCall": "shapes",
        "HookRun": "shapes",
        "HookRunner": "runner",
        "NOTHING": "shapes",
        "Outcome": "shapes",
        "Problem": "shapes",
        "Replaced": "shapes",
        "hook": "declaring",
        "hook_rows": "shapes",
        "parse_hooks": "parsing",
        "plugin_hooks": "declaring",
    },
)
