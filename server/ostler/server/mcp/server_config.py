"""Parses the entry of an MCP server, in the form that `.mcp.json` has: a program to start, or an address."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ostler.protocol.patterns import compile_later

_VARIABLE: Final = compile_later(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KINDS: Final = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamable_http": "http", "sse": "sse"}


class BadEntry(Exception):
    """The entry cannot be used; the message says why."""


_SECRET_CHARS: Final = 6
"""Shorter values are not redacted: they are words that occur elsewhere, too."""


@dataclass(frozen=True, slots=True)
class StdioServerConfig:
    """A program that is started here, and spoken to over its standard streams."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """In addition to the environment of the session's commands."""
    folder: str | None = None
    """Relative to the session's folder; None: that folder."""
    secrets: tuple[str, ...] = ()
    """What must not appear in any message about it."""


@dataclass(frozen=True, slots=True)
class HttpServerConfig:
    """A server that runs elsewhere, and is spoken to over HTTP."""

    kind: Literal["http", "sse"]
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """As above."""


ServerConfig = StdioServerConfig | HttpServerConfig


def parse_server(entry: Mapping[str, Any], known: Mapping[str, str]) -> ServerConfig:
    """`${NAME}` and `${NAME:-instead}` stand for the variables that are known. Raises BadEntry."""
    if (wrong := check_entry(entry)) is not None:
        raise BadEntry(wrong)
    expand = _VariableExpander(known)
    if _read_kind(entry) == "stdio":
        command, arguments = expand(entry["command"]), tuple(map(expand, entry.get("args") or ()))
        environment = {name: expand(value) for name, value in (entry.get("env") or {}).items()}
        folder = expand(entry["cwd"]) if entry.get("cwd") else None
        return StdioServerConfig(
            command, arguments, environment, folder, _collect_secrets(*expand.used_values, *environment.values())
        )
    headers = {name: expand(value) for name, value in (entry.get("headers") or {}).items()}
    if any(not text.isprintable() for pair in headers.items() for text in pair):
        raise BadEntry("A header holds a line end, or another character that cannot be sent.")
    url = expand(entry["url"])
    secrets = _collect_secrets(*expand.used_values, *headers.values(), url.partition("?")[2])
    return HttpServerConfig("sse" if _read_kind(entry) == "sse" else "http", url, headers, secrets)


def build_redactor(secrets: tuple[str, ...]) -> Callable[[str], str]:
    """A function that removes the secrets from a text: the library's about a failure, or the server's own."""

    def redact(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "…")
        return text

    return redact


def _collect_secrets(*values: str) -> tuple[str, ...]:
    """The longest first: one may be a part of another."""
    found = {value for value in values if len(value) >= _SECRET_CHARS}
    return tuple(sorted(found, key=len, reverse=True))


def check_entry(entry: Mapping[str, Any]) -> str | None:
    """What is wrong with its form; keys that we do not know are ignored: other products use them."""
    kind = _read_kind(entry)
    if kind is None:
        return f"type is one of {', '.join(_KINDS)}."
    texts = ("command", "cwd") if kind == "stdio" else ("url",)
    for name in texts:
        if not _is_text(entry.get(name), needed=name != "cwd"):
            return f"{name} is a text."
    if kind == "stdio" and not _are_texts(entry.get("args")):
        return "args is a list of texts."
    pairs = "env" if kind == "stdio" else "headers"
    if not _is_table(entry.get(pairs)):
        return f"{pairs} is an object: names and texts."
    if kind != "stdio" and not entry["url"].startswith(("http://", "https://", "${")):
        return "url begins with https:// or http://."
    return None


def _read_kind(entry: Mapping[str, Any]) -> str | None:
    given = entry.get("type")
    if given is None:
        return "http" if "url" in entry and "command" not in entry else "stdio"
    return _KINDS.get(given) if isinstance(given, str) else None


def _is_text(given: Any, *, needed: bool) -> bool:
    if given is None:
        return not needed
    return isinstance(given, str) and bool(given) and "\0" not in given


def _are_texts(given: Any) -> bool:
    return given is None or (
        isinstance(given, list) and all(isinstance(each, str) and "\0" not in each for each in given)
    )


def _is_table(given: Any) -> bool:
    if given is None:
        return True
    return isinstance(given, dict) and _are_texts([*given.keys(), *given.values()])


@dataclass(frozen=True, slots=True)
class _VariableExpander:
    known: Mapping[str, str]
    used_values: list[str] = field(default_factory=list)
    """The values that it has put in."""

    def __call__(self, text: str) -> str:
        return _VARIABLE.sub(self._expand_match, text)

    def _expand_match(self, found: "re.Match[str]") -> str:
        name, instead = found[1], found[2]
        value = self.known.get(name, instead)
        if value is None:
            raise BadEntry(f"The variable {name} is not set.")
        self.used_values.append(value)
        return value
