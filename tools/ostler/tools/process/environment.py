"""The variables that commands get."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ostler.tools.shell.running.profile import Snapshot

MARKER: Final = "OSTLER_CALL"
"""Tells which call a process belongs to, wherever it has gone."""


def output_prefix(call_id: str) -> str:
    """How the name of the file begins that a call's commands print to: it tells of those that dropped the variables."""
    return f"call-{call_id}-"


# What is ours: keys to the model, and the daemon's own settings and token.
_OUR_PREFIXES: Final = ("ANTHROPIC_", "OSTLER_")
_OUR_SECRETS: Final = frozenset({"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"})
# What would make the fixed shell another one, or the search another search.
_MEDDLING: Final = frozenset(
    {
        "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_XTRACEFD", "PROMPT_COMMAND", "PS4", "CDPATH", "GLOBIGNORE",
        "IFS", "BASH_COMPAT", "RIPGREP_CONFIG_PATH",
    }
)  # fmt: skip
# Nothing may wait for keys that nobody can press.
_UNATTENDED: Final = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0"}


def clean_environment() -> dict[str, str]:
    """The daemon's variables without its secrets."""
    return {name: value for name, value in os.environ.items() if may_pass(name)}


def command_environment(
    of_the_session: Mapping[str, str], call_id: str, profile: "Snapshot | None" = None
) -> dict[str, str]:
    """What a command sees: what the person gave the session stands above their profile, and that above the daemon."""
    own = clean_environment() if profile is None else profile.applied(clean_environment())
    return {**own, **_UNATTENDED, **of_the_session, MARKER: call_id}


def may_pass(name: str) -> bool:
    """Neither ours nor meddling."""
    return not (name.startswith(_OUR_PREFIXES) or name in _OUR_SECRETS or meddles(name))


def meddles(name: str) -> bool:
    """A shell that stands before a program would take it for its own."""
    return name in _MEDDLING or name.startswith("BASH_FUNC_")
