"""The table of programs that need a socket or the network only to look, for whoever lets them pass unasked."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from ostler.tools.commands.safety.program_table import (
    NotReadOnly,
    Program,
    ReadAccess,
    load_toml,
    parse_arguments,
    parse_program,
)
from ostler.tools.commands.syntax.words import Word

_MOST_WORDS: Final = 3
_NAMESPACE: Final = re.compile(r"[a-z0-9.-]+")
NETWORK_READ_ENVIRONMENT: Final = {
    "GIT_ALLOW_PROTOCOL": "https",
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
}
"""Beside what every read-only command gets: git may ask over https, with no helper of the repository."""


@cache
def load_network_forms() -> dict[str, Program]:
    """The forms that only look, by the words that they begin with."""
    entries = load_toml("network.toml")
    return {name: parse_program(entry, entries) for name, entry in entries.items()}


def check_network_words(tokens: Sequence[Word]) -> ReadAccess:
    """What a command reads that may use the network. Raises NotReadOnly where it may do more than look."""
    words = [token.literal for token in tokens]
    if words[:2] == ["kubectl", "-n"] and _NAMESPACE.fullmatch(words[2] or "" if len(words) > 2 else ""):
        tokens, words = [tokens[0], *tokens[3:]], [words[0], *words[3:]]
    for count in range(min(_MOST_WORDS, len(words)), 0, -1):
        form = load_network_forms().get(" ".join(word or "" for word in words[:count]))
        if form is not None:
            found = parse_arguments(form, tokens[count:])
            _check_operands(form, found.operands)
            return ReadAccess(git=words[0] in {"git", "gh"})
    raise NotReadOnly(f"{words[0] if words else None} is not in the table of programs that only look")


def _check_operands(form: Program, operands: Sequence[Word]) -> None:
    for operand in operands:
        if operand.kind != "literal" or any(word in operand.text.casefold() for word in form.refused_words):
            raise NotReadOnly(f"{operand.source} is not known to be harmless")
