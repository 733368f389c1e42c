"""What a hook is, what it is asked, and what came of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

from ostler.server.hooks.events import DECIDING_EVENTS
from ostler.server.hooks.matchers import compile_matcher, is_for_all
from ostler.tools.text import cut_text

Kind = Literal["command", "http", "prompt", "python"]
Source = Literal["policy", "user", "project", "local", "plugin"]
Decision = Literal["allow", "ask", "deny"]
RunOutcome = Literal["passed", "allowed", "asked", "denied", "blocked", "stopped", "failed", "timed_out"]

DEFAULT_TIMEOUT: Final = 60.0
_SHOWN_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a settings file, or a plug-in, that cannot be used as it is."""

    file: str | None
    path: str
    """Where in the file: `hooks.PreToolUse[0].matcher`."""
    message: str


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook as it was declared. Which of the later fields are set depends on its kind."""

    event: str
    kind: Kind
    source: Source
    name: str
    """Where it stands in its file, or the plug-in's name: for people."""
    file: str | None = None
    matcher: str | None = None
    condition: str | None = None
    """The permission rule of `if`."""
    timeout_seconds: float = DEFAULT_TIMEOUT
    command: str = ""
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    """With the names of variables, each of which the declaration allows."""
    prompt: str = ""
    call: Callable[[dict[str, Any]], Any] | None = None
    broken: str | None = None
    """Why it cannot be run; only a policy's hook is kept then, and denies."""

    @property
    def label(self) -> str:
        place = f" in {self.file}" if self.file else ""
        return f"{self.source} hook {self.name}{place}"

    @property
    def identity(self) -> tuple[Any, ...]:
        """What it does: two hooks that do the same are run once."""
        return (self.kind, self.command, self.url, self.headers, self.prompt, id(self.call), self.broken)

    @property
    def shown(self) -> str:
        """What it does, for people; without what an address may hold of secrets."""
        match self.kind:
            case "command":
                return cut_text(self.command, _SHOWN_CHARS)
            case "http":
                return cut_text(_redact_url(self.url), _SHOWN_CHARS)
            case "prompt":
                return cut_text(self.prompt, _SHOWN_CHARS)
            case "python":
                return self.name

    @property
    def must_run(self) -> bool:
        """Whether the call is denied where this hook fails."""
        return self.source == "policy" and self.event in DECIDING_EVENTS

    def matches(self, value: str | None) -> bool:
        if value is None or self.matcher is None or is_for_all(self.matcher):
            return True
        return compile_matcher(self.matcher)(value)


@dataclass(frozen=True, slots=True)
class HookCall:
    """One occurrence of an event, and the payload that its hooks get."""

    event: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HookRun:
    """One run of one hook, to be stored."""

    event: str
    hook: str
    source: Source
    file: str | None
    kind: Kind
    shown: str
    outcome: RunOutcome
    duration_ms: int
    exit_code: int | None = None
    """Only a command has one, and only one that ended by itself."""
    stdout: str = ""
    stderr: str = ""
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ReplacedOutput:
    """Another output for the call; it may be any JSON, null too."""

    output: Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """What all hooks of one event said, merged: the strictest decision wins."""

    decision: Decision | None = None
    reason: str = ""
    by: str = ""
    """The label of the hook that decided."""
    changed_input: Mapping[str, Any] | None = None
    context: tuple[str, ...] = ()
    """Words for the model."""
    stop: str | None = None
    """Why the loop ends after this."""
    block: str | None = None
    """Why the prompt is not taken, the turn does not end…"""
    interrupt: bool = False
    """A denied PermissionRequest that ends the turn too."""
    replaced_output: ReplacedOutput | None = None
    messages: tuple[str, ...] = ()
    """Words for people, from the hooks."""
    warnings: tuple[str, ...] = ()
    """Words for people, about hooks that failed."""
    runs: tuple[HookRun, ...] = ()


NO_OUTCOME: Final = Outcome()


def format_hook_rows(hooks: Sequence[Hook]) -> list[dict[str, Any]]:
    """The hooks as `hook/list` gives them."""
    return [
        {
            "event": hook.event,
            "name": hook.name,
            "kind": hook.kind,
            "shown": hook.shown,
            "matcher": hook.matcher,
            "condition": hook.condition,
            "timeout_ms": round(hook.timeout_seconds * 1000),
            "source": hook.source,
            "file": hook.file,
            "problem": hook.broken,
        }
        for hook in hooks
    ]


def _redact_url(url: str) -> str:
    parts = urlsplit(url)
    query = "…" if parts.query else ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))
