"""Hooks of plug-ins: Python callables, found by entry point."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ostler.protocol.installed import may_have_entry_points
from ostler.server.hooks.events import EVENTS, TOOL_EVENTS
from ostler.server.hooks.matchers import compile_matcher
from ostler.server.hooks.types import DEFAULT_TIMEOUT, Hook, Problem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP: Final = "ostler.hooks"

PythonHook = Callable[[dict[str, Any]], Any]
"""Gets what a command gets on stdin; returns what a command prints, as a dict, a text or None. It may be async."""


@dataclass(frozen=True, slots=True)
class DeclaredHook:
    """A callable together with when it wants to be called."""

    call: PythonHook
    event: str
    matcher: str | None
    condition: str | None
    timeout_seconds: float


def hook(
    event: str, *, matcher: str | None = None, condition: str | None = None, timeout_seconds: float = DEFAULT_TIMEOUT
) -> Callable[[PythonHook], DeclaredHook]:
    """Declares a callable as a hook; the entry point refers to what this decorator returns."""
    if event not in EVENTS:
        raise ValueError(f"there is no event {event!r}")
    if condition is not None and event not in TOOL_EVENTS:
        raise ValueError(f"a condition is about a tool, and {event} has none")
    if not 0 < timeout_seconds < float("inf"):
        raise ValueError(f"no time limit: {timeout_seconds!r}")
    compile_matcher(matcher or "")
    return lambda call: DeclaredHook(call, event, matcher, condition, timeout_seconds)


def load_plugin_hooks() -> tuple[tuple[Hook, ...], tuple[Problem, ...]]:
    """The hooks of installed plug-ins, and a problem for each that could not be loaded. Blocks: it imports them."""
    if not may_have_entry_points(ENTRY_POINT_GROUP):
        return (), ()
    # Imported here: most daemons have no plug-ins, and it takes long.
    from importlib.metadata import entry_points  # noqa: PLC0415

    found = [_load(point) for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)]
    hooks = tuple(one for one in found if isinstance(one, Hook))
    return hooks, tuple(one for one in found if isinstance(one, Problem))


def _load(point: "EntryPoint") -> Hook | Problem:
    package = point.dist.name if point.dist else point.value
    try:
        declared = point.load()
    except Exception as error:  # noqa: BLE001 - a plug-in can raise anything, and must not keep the daemon from starting
        return Problem(None, point.name, f"The hook {point.name} of {package} could not be loaded: {error!r}.")
    if not isinstance(declared, DeclaredHook):
        words = f"The hook {point.name} of {package} does not say when it runs: declare it with @hook(event)."
        return Problem(None, point.name, words)
    return Hook(
        event=declared.event,
        kind="python",
        source="plugin",
        name=f"{package}:{point.name}",
        matcher=declared.matcher,
        condition=declared.condition,
        timeout_seconds=declared.timeout_seconds,
        call=declared.call,
    )
