"""The rule that a person may be offered: one with which the very same call would pass from now on."""

from collections.abc import Callable
from typing import Final

from ostler.server.settings import Origin, RuleSet, rules_of
from ostler.tools import commands
from ostler.tools.context import Surroundings
from ostler.tools.permissions import BadRule, exact_path, parse_rule, rule_text
from ostler.tools.permissions.subject import server_rule
from ostler.tools.shell.bash_policy import reading
from ostler.tools.tool import AnyTool, ToolInput

_MAX_RULE_CHARS: Final = 2_000


def helping_rule(
    tool: AnyTool, given: ToolInput, rules: RuleSet, surroundings: Surroundings, passes: Callable[[RuleSet], bool]
) -> str | None:
    """The best rule beside which the call passes; None where none does, since what is offered has to hold. Blocks."""
    return next((text for text in candidates(tool, given) if passes(_with(rules, text, surroundings))), None)


def candidates(tool: AnyTool, given: ToolInput) -> list[str]:
    """Rules that are about calls like this one, the best first."""
    path, server = tool.path(given), tool.server(given)
    if server is not None:
        texts = [server_rule(server)]
    elif path is not None:
        texts = [rule_text("Read" if tool.runs_commands else tool.name, exact_path(path))]
    elif tool.runs_commands:
        owner = tool.name if tool.is_shell else "Bash"
        texts = [rule_text(owner, content) for content in _contents(tool.permission_matcher(given))]
    else:
        content = tool.permission_matcher(given)
        texts = [rule_text(tool.name, content) if content else tool.name]
    return [text for text in texts if _can_be_read(text)]


def _contents(command: str) -> list[str]:
    """What is known to be harmless with anything behind it, then the whole line."""
    known = commands.suggested_rules(reading(command))
    # One rule has to cover all of it, and a star would stand for more than these words.
    line = [command.strip()] if "*" not in command else []
    return list(dict.fromkeys([*(known if len(known) == 1 else ()), *line]))


def _with(rules: RuleSet, text: str, surroundings: Surroundings) -> RuleSet:
    # Our own words name every path from the root on, so that it does not matter where they are read.
    origin = Origin("session", None, surroundings.folder, surroundings.folder, "/")
    return RuleSet.of([*rules.rules, *rules_of({"allow": [text]}, origin)], rules.aliases)


def _can_be_read(text: str) -> bool:
    try:
        parse_rule(text)
    except BadRule:
        return False
    return len(text) <= _MAX_RULE_CHARS
