"""Hooks: what people let run at certain events of a session, to decide, to add context or to watch."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import export_lazily

if TYPE_CHECKING:
    from ostler.server.hooks.events import EVENTS
    from ostler.server.hooks.parsing import parse_hooks
    from ostler.server.hooks.plugins import hook, load_plugin_hooks
    from ostler.server.hooks.runner import HookRunner
    from ostler.server.hooks.types import (
        NO_OUTCOME,
        Hook,
        HookCall,
        HookRun,
        Outcome,
        Problem,
        ReplacedOutput,
        format_hook_rows,
    )

__all__ = [
    "EVENTS",
    "NO_OUTCOME",
    "Hook",
    "HookCall",
    "HookRun",
    "HookRunner",
    "Outcome",
    "Problem",
    "ReplacedOutput",
    "format_hook_rows",
    "hook",
    "load_plugin_hooks",
    "parse_hooks",
]

__getattr__ = export_lazily(
    __name__,
    {
        "EVENTS": "events",
        "Hook": "types",
        "HookCall": "types",
        "HookRun": "types",
        "HookRunner": "runner",
        "NO_OUTCOME": "types",
        "Outcome": "types",
        "Problem": "types",
        "ReplacedOutput": "types",
        "hook": "plugins",
        "format_hook_rows": "types",
        "parse_hooks": "parsing",
        "load_plugin_hooks": "plugins",
    },
)
