"""What the entry of an MCP server says, in the form that `.mcp.json` has: a program to start, or an address."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KINDS: Final = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamable_http": "http", "sse": "sse"}


class BadEntry(Exception):
    """The entry cannot be used; the words say why."""


@dataclass(frozen=True, slots=True)
class Program:
    """Started here, and spoken to over its standard streams."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Above what the session's commands have."""
    folder: str | None = None
    """Null: the session's."""


@dataclass(frozen=True, slots=True)
class Address:
    """Runs elsewhere, and is spoken to over HTTP."""

    kind: Literal["http", "sse"]
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


Server = Program | Address


def server_of(entry: Mapping[str, Any], known: Mapping[str, str]) -> Server:
    """`${NAME}` and `${NAME:-instead}` stand for the variables that are known. Raises BadEntry."""
    if (wrong := flaw(entry)) is not None:
        raise BadEntry(wrong)
    fill = _Filler(known)
    if _kind(entry) == "stdio":
        return Program(
            fill(entry["command"]),
            tuple(map(fill, entry.get("args") or ())),
            {name: fill(value) for name, value in (entry.get("env") or {}).items()},
            fill(entry["cwd"]) if entry.get("cwd") else None,
        )
    headers = {name: fill(value) for name, value in (entry.get("headers") or {}).items()}
    return Address("sse" if _kind(entry) == "sse" else "http", fill(entry["url"]), headers)


def flaw(entry: Mapping[str, Any]) -> str | None:
    """What is wrong with its form; keys that we do not know are other products' business."""
    kind = _kind(entry)
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


def _kind(entry: Mapping[str, Any]) -> str | None:
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
class _Filler:
    known: Mapping[str, str]

    def __call__(self, text: str) -> str:
        return _VARIABLE.sub(self._value, text)

    def _value(self, found: "re.Match[str]") -> str:
        name, instead = found[1], found[2]
        value = self.known.get(name, instead)
        if value is None:
            raise BadEntry(f"The variable {name} is not set.")
        return value
