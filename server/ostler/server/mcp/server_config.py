"""What the entry of an MCP server says, in the form that `.mcp.json` has: a program to start, or an address."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KINDS: Final = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamable_http": "http", "sse": "sse"}


class BadEntry(Exception):
    """The entry cannot be used; the words say why."""


_SECRET_CHARS: Final = 6
"""Shorter values are words that stand elsewhere, too."""


@dataclass(frozen=True, slots=True)
class Program:
    """Started here, and spoken to over its standard streams."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Above what the session's commands have."""
    folder: str | None = None
    """From the session's on; null: that one."""
    secrets: tuple[str, ...] = ()
    """What must not be seen in anybody's words about it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Runs elsewhere, and is spoken to over HTTP."""

    kind: Literal["http", "sse"]
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """As above."""


Server = Program | Address


def server_of(entry: Mapping[str, Any], known: Mapping[str, str]) -> Server:
    """`${NAME}` and `${NAME:-instead}` stand for the variables that are known. Raises BadEntry."""
    if (wrong := flaw(entry)) is not None:
        raise BadEntry(wrong)
    fill = _Filler(known)
    if _kind(entry) == "stdio":
        command, arguments = fill(entry["command"]), tuple(map(fill, entry.get("args") or ()))
        environment = {name: fill(value) for name, value in (entry.get("env") or {}).items()}
        folder = fill(entry["cwd"]) if entry.get("cwd") else None
        return Program(command, arguments, environment, folder, _secrets(*fill.filled, *environment.values()))
    headers = {name: fill(value) for name, value in (entry.get("headers") or {}).items()}
    if any(not text.isprintable() for pair in headers.items() for text in pair):
        raise BadEntry("A header holds a line end, or another character that cannot be sent.")
    url = fill(entry["url"])
    secrets = _secrets(*fill.filled, *headers.values(), url.partition("?")[2])
    return Address("sse" if _kind(entry) == "sse" else "http", url, headers, secrets)


def hider(secrets: tuple[str, ...]) -> Callable[[str], str]:
    """Takes them out of words: a library's about a failure, or the server's own."""

    def hide(words: str) -> str:
        for secret in secrets:
            words = words.replace(secret, "…")
        return words

    return hide


def _secrets(*values: str) -> tuple[str, ...]:
    """The longest first: one may be a part of another."""
    found = {value for value in values if len(value) >= _SECRET_CHARS}
    return tuple(sorted(found, key=len, reverse=True))


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
    filled: list[str] = field(default_factory=list)
    """The values that it has put in."""

    def __call__(self, text: str) -> str:
        return _VARIABLE.sub(self._value, text)

    def _value(self, found: "re.Match[str]") -> str:
        name, instead = found[1], found[2]
        value = self.known.get(name, instead)
        if value is None:
            raise BadEntry(f"The variable {name} is not set.")
        self.filled.append(value)
        return value
