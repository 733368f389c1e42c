"""Parsing of the configuration entry of an MCP server."""

from typing import Any

import pytest

from ostler.server.mcp.server_config import BadEntry, HttpServerConfig, StdioServerConfig, parse_server
from tests.support.tables import try_each

KNOWN = {"HOME": "/home/a", "EMPTY": ""}


def test_a_program_has_its_arguments_variables_and_folder() -> None:
    entry = {
        "command": "${HOME}/x",
        "args": ["-p", "${PORT:-80}"],
        "env": {"A": "${EMPTY}"},
        "cwd": "/w",
        "disabled": 1,
    }
    assert parse_server(entry, KNOWN) == StdioServerConfig("/home/a/x", ("-p", "80"), {"A": ""}, "/w", ("/home/a",))


@pytest.mark.parametrize(
    ("given", "kind"), [(None, "http"), ("http", "http"), ("streamable-http", "http"), ("sse", "sse")]
)
def test_an_address_has_its_headers(given: str | None, kind: Any) -> None:
    entry = {"url": "https://x/${HOME}", "headers": {"A": "${NONE:-}"}, **({"type": given} if given else {})}
    assert parse_server(entry, KNOWN) == HttpServerConfig(kind, "https://x//home/a", {"A": ""}, ("/home/a",))


@try_each(
    ("entry", "words"),
    [
        ({}, "command is a text"),
        ({"command": ""}, "command is a text"),
        ({"command": "a\0b"}, "command is a text"),
        ({"command": "x", "cwd": 3}, "cwd is a text"),
        ({"command": "x", "args": [1]}, "args is a list of texts"),
        ({"command": "x", "env": ["A"]}, "env is an object"),
        ({"type": "http"}, "url is a text"),
        ({"type": ["http"]}, "type is one of"),
        ({"url": "x"}, "url begins with"),
        ({"command": "$HOME ${NONE}"}, "The variable NONE is not set"),
        ({"url": "https://x", "headers": {"A": "b\nc"}}, "A header holds a line end"),
    ],
)
def test_what_makes_no_sense_is_said(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(BadEntry, match=words):
        parse_server(entry, KNOWN)
