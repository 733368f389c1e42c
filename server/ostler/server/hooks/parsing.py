"""Hooks as settings files declare them. What cannot be used is reported with its place, and never silently left out."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from ostler.protocol.patterns import compile_later
from ostler.server.hooks.events import DECIDING_EVENTS, EVENTS, TOOL_EVENTS, takes_matcher
from ostler.server.hooks.matchers import BadMatcher, compile_matcher
from ostler.server.hooks.types import DEFAULT_TIMEOUT, Hook, Problem, Source

VARIABLE: Final = compile_later(r"\$\{(\w+)\}|\$(\w+)", re.ASCII)
"""How a header names a variable."""
_MAX_TIMEOUT: Final = 3600.0


class _Unusable(Exception):
    """Why a hook cannot be run, and at which place below it that stands."""

    def __init__(self, below: str, message: str) -> None:
        super().__init__(message)
        self.subpath = below


def parse_hooks(
    entries: Iterable[tuple[Any, Source, str | None]],
) -> tuple[tuple[Hook, ...], tuple[Problem, ...]]:
    """Each entry is what `hooks` holds in one settings file, where that comes from, and the file."""
    hooks: list[Hook] = []
    problems: list[Problem] = []
    for declared, source, file in entries:
        parser = _FileParser(source, file)
        parser.parse(declared)
        hooks += parser.hooks
        problems += parser.problems
    return tuple(hooks), tuple(problems)


@dataclass(slots=True)
class _FileParser:
    source: Source
    file: str | None
    hooks: list[Hook] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def parse(self, declared: Any) -> None:
        if not isinstance(declared, Mapping):
            return self._report("", "an object is expected: event names, each with a list")
        for event, groups in declared.items():
            if event not in EVENTS:
                self._report(f".{event}", f"there is no event {event!r}; there are {', '.join(EVENTS)}")
            elif not isinstance(groups, list):
                self._reject(event, event, None, _Unusable("", "a list is expected"))
            else:
                for number, group in enumerate(groups):
                    self._parse_group(event, f"{event}[{number}]", group)
        return None

    def _parse_group(self, event: str, name: str, group: Any) -> None:
        try:
            matcher, declared = _read_group(event, group)
        except _Unusable as why:
            return self._reject(event, name, None, why)
        for number, one in enumerate(declared):
            self._parse_hook(event, f"{name}.hooks[{number}]", matcher, one)
        return None

    def _parse_hook(self, event: str, name: str, matcher: str | None, declared: Any) -> None:
        try:
            what, condition = _read_hook(event, declared)
        except _Unusable as why:
            return self._reject(event, name, matcher, why)
        timeout = self._parse_timeout(name, declared.get("timeout"))
        self.hooks.append(
            Hook(
                event=event,
                source=self.source,
                name=name,
                file=self.file,
                matcher=matcher,
                condition=condition,
                timeout_seconds=timeout,
                **what,
            )
        )
        return None

    def _parse_timeout(self, name: str, given: Any) -> float:
        """A hook that protects something is not left out for a wrong number."""
        if given is None:
            return DEFAULT_TIMEOUT
        if isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= _MAX_TIMEOUT:
            return float(given)
        words = f"seconds are expected, at most {_MAX_TIMEOUT:g}; it has {DEFAULT_TIMEOUT:g} s instead"
        self._report(f".{name}.timeout", words)
        return DEFAULT_TIMEOUT

    def _reject(self, event: str, name: str, matcher: str | None, why: _Unusable) -> None:
        denies = self.source == "policy" and event in DECIDING_EVENTS
        consequence = "what it would see is denied" if denies else "the hook is NOT run"
        self._report(f".{name}{why.subpath}", f"{why}: {consequence}")
        if denies:
            self.hooks.append(Hook(event, "command", self.source, name, self.file, matcher, broken=str(why)))

    def _report(self, path: str, message: str) -> None:
        self.problems.append(Problem(self.file, f"hooks{path}", message))


def _read_group(event: str, group: Any) -> tuple[str | None, list[Any]]:
    if not isinstance(group, Mapping):
        raise _Unusable("", "an object with `matcher` and `hooks` is expected")
    matcher = group.get("matcher")
    if matcher is not None and not isinstance(matcher, str):
        raise _Unusable(".matcher", "a text is expected")
    if matcher is not None and takes_matcher(event):
        try:
            compile_matcher(matcher)
        except BadMatcher as error:
            raise _Unusable(".matcher", str(error)) from None
    hooks = group.get("hooks")
    if not isinstance(hooks, list):
        raise _Unusable(".hooks", "a list is expected")
    return matcher, hooks


def _read_hook(event: str, declared: Any) -> tuple[dict[str, Any], str | None]:
    """What it does, as fields of a Hook, and its condition."""
    if not isinstance(declared, Mapping):
        raise _Unusable("", "an object with `type` is expected")
    read_kind = _KINDS.get(str(declared.get("type")))
    if read_kind is None:
        raise _Unusable(".type", f"{', '.join(_KINDS)} can be run here, and {declared.get('type')!r} cannot")
    condition = declared.get("if")
    if condition is not None and (not isinstance(condition, str) or not condition.strip()):
        raise _Unusable(".if", "a permission rule is expected")
    if condition is not None and event not in TOOL_EVENTS:
        raise _Unusable(".if", f"a rule is about a tool, and {event} has none")
    return read_kind(declared), condition


def _read_command(declared: Mapping[str, Any]) -> dict[str, Any]:
    # They change what is run, so that a command without them would be another one.
    if "args" in declared:
        raise _Unusable(".args", "write the arguments into the command")
    if declared.get("shell", "bash") != "bash":
        raise _Unusable(".shell", "commands are run by bash only")
    return {"kind": "command", "command": _read_text(declared, "command")}


def _read_http(declared: Mapping[str, Any]) -> dict[str, Any]:
    url = _read_text(declared, "url")
    try:
        parts = urlsplit(url)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError:
        raise _Unusable(".url", f"{url!r} is no address") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_one:
        raise _Unusable(".url", "an address that begins with http:// or https:// is expected")
    allowed = declared.get("allowedEnvVars", [])
    if not isinstance(allowed, list) or not all(isinstance(name, str) for name in allowed):
        raise _Unusable(".allowedEnvVars", "a list of names is expected")
    return {"kind": "http", "url": url, "headers": _read_headers(declared.get("headers", {}), allowed)}


def _read_headers(declared: Any, allowed: list[str]) -> tuple[tuple[str, str], ...]:
    if not isinstance(declared, Mapping) or not all(isinstance(value, str) for value in declared.values()):
        raise _Unusable(".headers", "an object of texts is expected")
    for name, value in declared.items():
        wanted = {found[1] or found[2] for found in VARIABLE.finditer(value)}
        if missing := sorted(wanted - set(allowed)):
            raise _Unusable(f".headers.{name}", f"allowedEnvVars does not name {', '.join(missing)}")
    return tuple(declared.items())


def _read_prompt(declared: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "prompt", "prompt": _read_text(declared, "prompt")}


def _read_text(declared: Mapping[str, Any], name: str) -> str:
    given = declared.get(name)
    if not isinstance(given, str) or not given.strip():
        raise _Unusable(f".{name}", "a text is expected")
    if "\0" in given:
        raise _Unusable(f".{name}", "it holds a zero byte")
    return given


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "command": _read_command,
    "http": _read_http,
    "prompt": _read_prompt,
}
