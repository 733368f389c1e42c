"""The environment variables of commands: the daemon's without its secrets, then the profile's, then the session's."""

import os
from collections.abc import Mapping
from typing import Final

from ostler.tools.services import ProfileSnapshot

MARKER: Final = "OSTLER_CALL"
"""Tells which call a process belongs to, wherever it has gone."""


def build_output_prefix(call_id: str) -> str:
    """How the names of a call's output files begin; this identifies processes that dropped the call's variables."""
    return f"call-{call_id}-"


# What is ours: keys to the model, and the daemon's own settings and token.
_OUR_PREFIXES: Final = ("ANTHROPIC_", "OSTLER_")
_OUR_SECRETS: Final = frozenset({"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"})
# Variables that change how the shell or ripgrep behaves.
_SHELL_CONTROL_VARIABLES: Final = frozenset(
    {
        "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_XTRACEFD", "PROMPT_COMMAND", "PS4", "CDPATH", "GLOBIGNORE",
        "IFS", "BASH_COMPAT", "RIPGREP_CONFIG_PATH",
    }
)  # fmt: skip
# No pager, editor or password prompt: nobody is at the keyboard.
_NONINTERACTIVE: Final = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0"}


def build_clean_environment() -> dict[str, str]:
    """The daemon's variables without its secrets."""
    return {name: value for name, value in os.environ.items() if may_inherit(name)}


def build_command_environment(
    session_variables: Mapping[str, str], call_id: str, profile: ProfileSnapshot | None = None
) -> dict[str, str]:
    """What a command sees: the session's variables override the person's profile, and that overrides the daemon's."""
    own = build_clean_environment() if profile is None else profile.apply_to(build_clean_environment())
    return {**own, **_NONINTERACTIVE, **session_variables, MARKER: call_id}


def may_inherit(name: str) -> bool:
    """Whether a child may inherit it: it is no secret of ours, and does not change how a shell behaves."""
    return not (name.startswith(_OUR_PREFIXES) or name in _OUR_SECRETS or is_shell_control(name))


def is_shell_control(name: str) -> bool:
    """Whether the shell that starts a program would obey the variable itself."""
    return name in _SHELL_CONTROL_VARIABLES or name.startswith("BASH_FUNC_")
