"""Hooks: what people let run at certain moments of a session, to decide, to add or to watch."""

from ostler.server.hooks.declaring import hook, plugin_hooks
from ostler.server.hooks.events import EVENTS
from ostler.server.hooks.hook import NOTHING, Hook, HookCall, HookRun, Outcome, Problem, Replaced, hook_rows
from ostler.server.hooks.parsing import parse_hooks
from ostler.server.hooks.runner import HookRunner

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
