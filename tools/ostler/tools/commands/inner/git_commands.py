"""Finds what git runs: its subcommand behind global options, aliases, and settings that are commands."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Final

from ostler.tools.commands.inner.shell_lines import Opened, make_undecided, parse_line
from ostler.tools.commands.inner.wrapper_table import load_toml
from ostler.tools.commands.syntax.parsed import SimpleCommand, make_literal_word, make_unknown_word
from ostler.tools.commands.syntax.words import Word

_VALUES: Final = frozenset({
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path", "--super-prefix",
    "--attr-source",
})  # fmt: skip
_SETTING_OPTIONS: Final = frozenset({"-c", "--config"})
_MAX_SETTINGS: Final = 200
_REMOTE_HELPER: Final = re.compile(r"(?:^|=)(?:ext|fd)::")
_CONFIG_READS: Final = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l", "--unset", "--unset-all"})


@dataclass(frozen=True, slots=True)
class _Tables:
    subcommands: frozenset[str]
    """Git's own: any other name is an alias, or a program of somebody's."""
    harmless: tuple[str, ...]
    """Beginnings of the settings that run nothing."""


@cache
def _load_tables() -> _Tables:
    found = load_toml("inner_programs.toml")["git"]
    return _Tables(frozenset(found["subcommands"]), tuple(found["harmless_settings"]))


def split_name(part: SimpleCommand) -> SimpleCommand:
    """`git-push` is `git push`."""
    name = part.tokens[0].literal if part.tokens else None
    if name is None or not name.startswith("git-") or name.removeprefix("git-") not in _load_tables().subcommands:
        return part
    both = (make_literal_word("git"), make_literal_word(name.removeprefix("git-")))
    return replace(part, tokens=(*both, *part.tokens[1:]))


def open_git(part: SimpleCommand) -> Opened:
    """The same without git's global options, where it has any, and what aliases and settings run."""
    tokens, place, settings = part.tokens, 1, list[Word]()
    found: list[SimpleCommand] = []
    hidden: str | None = None
    while place < len(tokens):
        text = tokens[place].literal
        if text is None:
            return Opened((replace(part, tokens=(tokens[0], *tokens[place:])),))
        if not text.startswith("-") or text == "-":
            break
        name, equals, _ = text.partition("=")
        if name == "--config-env":
            hidden = "a setting of git's comes from the environment"
        if name in _SETTING_OPTIONS and not equals and place + 1 < len(tokens):
            settings.append(tokens[place + 1])
        place += 2 if name in _VALUES and not equals and name != "--exec-path" else 1
    rest = tokens[place:]
    if len(settings) > _MAX_SETTINGS:
        hidden = "it has more settings than are looked at"
    for setting in settings[:_MAX_SETTINGS]:
        found += _open_setting(part, *_split_setting(setting), rest)
    if place > 1:
        return Opened((replace(part, tokens=(tokens[0], *rest)), *found), hidden=hidden)
    subcommand = rest[0].literal if rest else None
    if subcommand is not None and subcommand not in _load_tables().subcommands:
        # Which command an alias stands for is known only to the repository.
        found.append(replace(part, tokens=(tokens[0], make_unknown_word(subcommand))))
        return Opened(tuple(found), rest[1:], hidden)
    found += [inner for pair in _find_written_settings(rest) for inner in _open_setting(part, *pair, ())]
    if any(_REMOTE_HELPER.search(token.text) for token in rest):
        hidden = "a remote's address is a command"
    return Opened(tuple(found), hidden=hidden)


def _split_setting(word: Word) -> tuple[str, Word]:
    if word.literal is None:
        return "", word
    name, _, value = word.text.partition("=")
    return name, Word(value, value, "literal")


def _find_written_settings(rest: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """The settings that `git config NAME VALUE` and `git clone -c NAME=VALUE` write."""
    subcommand = rest[0].text if rest else ""
    if subcommand == "config":
        if any(token.text in _CONFIG_READS for token in rest):
            return
        words = [token for token in rest[1:] if token.literal is None or not token.text.startswith("-")]
        for name, value in pairwise(words):
            if "." in name.text or name.literal is None:
                yield name.text, value
    elif subcommand in {"clone", "init", "submodule"}:
        for place, token in enumerate(rest):
            if token.text in _SETTING_OPTIONS and place + 1 < len(rest):
                yield _split_setting(rest[place + 1])
            elif token.text.startswith(("--config=", "-c")) and "=" in token.text:
                text = token.text.removeprefix("--config=").removeprefix("-c")
                yield _split_setting(make_literal_word(text))


def _open_setting(part: SimpleCommand, name: str, value: Word, rest: Sequence[Word]) -> list[SimpleCommand]:
    """What a setting may run: an alias, a pager, a helper."""
    name = name.lower()
    if value.literal is None:
        return [] if name and name.startswith(_load_tables().harmless) else [make_undecided(part, value.source)]
    if name.startswith("alias."):
        return _open_alias(part, value.text, rest)
    if name.startswith(_load_tables().harmless):
        return []
    return parse_line(part, make_literal_word(value.text.removeprefix("!")))


def _open_alias(part: SimpleCommand, value: str, rest: Sequence[Word]) -> list[SimpleCommand]:
    if value.startswith("!"):
        return parse_line(part, make_literal_word(value[1:]))
    found = parse_line(part, make_literal_word(f"git {value}"))
    return [replace(inner, tokens=(*inner.tokens, *rest[1:])) for inner in found]
