"""Suggests a rule to the person who is asked: one that would allow the very same call from now on."""

import os
from collections.abc import Callable
from typing import Final

from ostler.server.settings import Origin, RuleSet, parse_rules
from ostler.tools import commands
from ostler.tools.call_subject import find_path, find_rule_text, find_server, list_paths
from ostler.tools.context import SessionView
from ostler.tools.permissions import (
    BASH,
    READ,
    BadRule,
    build_content,
    build_exact_pattern,
    format_rule,
    may_be_path,
    parse_rule,
)
from ostler.tools.permissions.subject import format_server_rule
from ostler.tools.shell.bash_policy import parse_command
from ostler.tools.tool import AnyTool, ToolInput

_MAX_RULE_CHARS: Final = 2_000


def suggest_rule(
    tool: AnyTool, parsed_input: ToolInput, rules: RuleSet, view: SessionView, passes: Callable[[RuleSet], bool]
) -> str | None:
    """The best rule that, added to the others, allows the call; None where none does. Each is tried. Blocks."""
    return next(
        (text for text in list_candidates(tool, parsed_input, view) if passes(_add_rule(rules, text, view))), None
    )


def list_candidates(tool: AnyTool, parsed_input: ToolInput, view: SessionView) -> list[str]:
    """Rules that match calls like this one, the best first."""
    path, server = find_path(tool, parsed_input), find_server(tool, parsed_input)
    if server is not None:
        texts = [format_server_rule(server) if tool.on_server is None else tool.name]
    elif path is not None:
        texts = [format_rule(READ if tool.shell.runs_commands else tool.name, build_exact_pattern(path))]
    elif tool.shell.runs_commands:
        owner = tool.name if tool.shell.is_shell else BASH
        texts = [format_rule(owner, content) for content in _list_contents(find_rule_text(tool, parsed_input))]
    else:
        texts = [_format_plain_rule(tool, parsed_input, view)]
    return [text for text in texts if _can_be_read(text)]


def _format_plain_rule(tool: AnyTool, parsed_input: ToolInput, view: SessionView) -> str:
    """For a tool that names neither path nor command: by its own text, by the one path it is given, or as a whole."""
    if content := find_rule_text(tool, parsed_input):
        return format_rule(tool.name, build_content(tool.name, content))
    given = {os.path.normpath(os.path.join(view.folder, path)) for path in list_paths(tool, parsed_input)}
    if len(given) == 1 and may_be_path(tool.name):
        return format_rule(tool.name, build_exact_pattern(given.pop()))
    return tool.name


def _list_contents(command: str) -> list[str]:
    """Rule contents for a command: the prefix that is harmless with any arguments, then the whole line."""
    known = commands.suggest_rules(parse_command(command))
    # One rule has to cover the whole command, and a star in it would be a wildcard.
    line = [command.strip()] if "*" not in command else []
    return list(dict.fromkeys([*(known if len(known) == 1 else ()), *line]))


def _add_rule(rules: RuleSet, text: str, view: SessionView) -> RuleSet:
    # Suggested rules have absolute paths, so that it does not matter which folder they are resolved from.
    origin = Origin("session", None, view.folder, view.folder, "/")
    return RuleSet.of([*rules.rules, *parse_rules({"allow": [text]}, origin)], rules.aliases)


def _can_be_read(text: str) -> bool:
    try:
        parse_rule(text)
    except BadRule:
        return False
    return len(text) <= _MAX_RULE_CHARS
