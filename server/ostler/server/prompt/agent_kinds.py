"""The built-in kinds of agents, and the part of a system prompt that makes a session an agent."""

from functools import cache
from pathlib import Path
from typing import Final

from ostler.tools.services import AgentKind

FORK: Final = "fork"
"""The kind of agent that begins with all that its parent knows."""
FAST_MODEL: Final = "fast"
"""As the model of a kind: the small model that goes with the session's."""
_LOOKERS: Final = ("Read", "Grep", "Glob", "Bash")


@cache
def load_built_in_kinds() -> tuple[AgentKind, ...]:
    return (
        AgentKind(
            "general-purpose",
            "Research and changes over many steps; when no other kind fits.",
            _read_text("general-purpose"),
        ),
        AgentKind(
            "Explore",
            "Finds its way through code fast, and changes nothing. Say how thorough it shall be: quick, medium or "
            "very thorough.",
            _read_text("explore"),
            tools=_LOOKERS,
            model=FAST_MODEL,
            mode="plan",
        ),
        AgentKind(
            "Plan",
            "Designs how to make a change: steps, files, risks. It changes nothing.",
            _read_text("plan"),
            tools=_LOOKERS,
            mode="plan",
        ),
        AgentKind(
            "Bash",
            "Runs commands and reports what matters of their output.",
            _read_text("bash"),
            tools=("Bash",),
        ),
        AgentKind(
            "guide",
            "Answers questions about ostler itself: its commands, settings and protocol.",
            _read_text("guide"),
            tools=_LOOKERS,
            model=FAST_MODEL,
            mode="plan",
        ),
        AgentKind(
            "statusline-setup",
            "Sets up the status line of the person's terminal client.",
            _read_text("statusline-setup"),
            tools=("Read", "Edit"),
        ),
        AgentKind(
            FORK,
            "You, with all that you know by now, for a part that needs much of it. Its model and tools are yours; what "
            "agents may not use is refused to it. Say only what is to be done.",
            _read_text("fork"),
        ),
    )


def render_fork() -> str:
    """What a fork is told before its prompt: its system prompt is its parent's."""
    return _read_text("fork")


def render_role(instructions: str) -> str:
    """What the system prompt of an agent says beside that of any session."""
    return f"{_read_text('all')}\n\n{instructions.strip()}"


def _read_text(name: str) -> str:
    return Path(__file__).with_name("kinds").joinpath(f"{name}.md").read_text("utf-8").strip()
