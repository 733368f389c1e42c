"""Writes the tables of docs/terminal.md: the keys and the slash commands, from the tables that the chat goes by."""

from pathlib import Path

from ostler.clients.cli.chat.slash_commands import SLASH_COMMANDS
from ostler.clients.cli.terminal.keys import KEYS


def fill_tables(page: Path) -> str:
    """The page with its tables as they should be."""
    text = page.read_text("utf-8")
    for name, rows in (("keys", _list_keys()), ("commands", _list_commands())):
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        head, _, rest = text.partition(begin)
        text = "".join([head, begin, *(f"{row}\n" for row in rows), end, rest.partition(end)[2]])
    return text


def _list_keys() -> list[str]:
    rows = ["| keys | what they do |", "|---|---|"]
    return rows + [f"| {_quote(key.keys)} | {key.help} |" for key in KEYS]


def _list_commands() -> list[str]:
    rows = ["| command | what it does |", "|---|---|"]
    return rows + [f"| `{command.usage}` | {command.help} |" for command in SLASH_COMMANDS if command.help]


def _quote(keys: str) -> str:
    return ", ".join(f"`{key}`" for key in keys.split(", "))
