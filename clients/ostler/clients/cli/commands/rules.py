"""`rules`: what agents may do without being asked, what they are asked about, and what not; until when."""

import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.help import CommandGroup
from ostler.clients.cli.output import (
    Colour,
    Format,
    colourize,
    format_facts,
    format_table,
    note,
    sanitize,
    say,
    say_json,
)
from ostler.clients.cli.render.explanation import format_effects, format_part
from ostler.clients.cli.session_choice import FolderOption, SessionOption, choose_session, fetch_all_pages

if TYPE_CHECKING:
    from ostler.clients import Ostler

# As in ostler.protocol.rule, which would load pydantic for every `--help`.
BehaviorName = Literal["allow", "ask", "deny"]
RuleScopeName = Literal["session", "local", "project", "user"]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
BehaviorArgument = Annotated[BehaviorName, typer.Argument(help="What the rule says.")]
RuleArgument = Annotated[str, typer.Argument(metavar="RULE", help="`Tool` or `Tool(content)`.")]
ScopeOption = Annotated[
    RuleScopeName,
    typer.Option("--scope", help="How far it reaches: the session, the folder (local, project), or you (user)."),
]
COLOURS: Final[dict[str, Colour]] = {"allow": "green", "ask": "yellow", "deny": "red"}
group = CommandGroup(
    help="Show, add, remove and try permission rules.\n\n"
    "Rules are `Tool` or `Tool(content)`: Bash(npm test:*), Read(secrets/**), WebFetch(domain:example.org). "
    "Deny beats ask, and ask beats allow, wherever they come from.",
)
_SPAN: Final = re.compile(r"(\d{1,6})\s*([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="rules")


@group.callback(invoke_without_command=True)
def _without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        say(context.get_help())


@group.command("list")
def list_(
    context: typer.Context, session: SessionOption = None, cwd: FolderOption = None, format: FormatOption = "text"
) -> None:
    """List the rules of a session, the strongest source first, and what is wrong in the settings files."""

    async def ask(ostler: "Ostler") -> tuple[dict[str, Any], bool]:
        wanted = {"session_id": await choose_session(ostler, session, cwd)}
        found = await fetch_all_pages(ostler, "rule/list", wanted, "rules")
        return found, await _is_trusted(ostler, wanted)

    found, trusted = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    for line in format_table([_format_cells(rule, trusted=trusted) for rule in found["rules"]], COLOURS):
        say(line)
    if not found["rules"]:
        note("No rules. `ostler rules add allow 'Bash(npm test:*)'` makes one.")
    for problem in found["problems"]:
        note(format_problem(problem))


async def _is_trusted(ostler: "Ostler", wanted: dict[str, Any]) -> bool:
    """By now: the session itself says how it was when it was made."""
    folder = (await ostler.request("session/get", wanted))["cwd"]
    trusts = (await fetch_all_pages(ostler, "trust/list", {}, "trusts"))["trusts"]
    return any(trust["folder"] == folder and trust["current"] for trust in trusts)


def _format_cells(rule: dict[str, Any], *, trusted: bool) -> list[str]:
    until = f"until {rule['expires_at']}" if rule["expires_at"] else ""
    counts = "" if rule["counts"] else f"does not count: {_explain_inactive(rule, trusted=trusted)}"
    return [rule["behavior"], rule["rule"], rule["source"], rule["file"] or "", until, counts]


def _explain_inactive(rule: dict[str, Any], *, trusted: bool) -> str:
    from ostler.protocol import times

    if rule["expires_at"] and rule["expires_at"] <= times.now():
        return "it has expired"
    if rule["source"] in {"project", "local"} and not trusted:
        return "the folder is not trusted"
    return "a project may not allow so much" if rule["source"] == "project" else "the policy keeps it out"


def format_problem(problem: dict[str, Any]) -> str:
    """Something wrong in a settings file, as editors understand it."""
    place = f"{problem['file']}:{problem['line']}:{problem['column']}: " if problem["file"] else ""
    return f"{colourize('problem', 'red')}  {sanitize(place + problem['message'])}"


@group.command()
def add(
    context: typer.Context,
    behavior: BehaviorArgument,
    rule: RuleArgument,
    scope: ScopeOption = "session",
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="When it ends: 30m, 2h, 7d, or a time like 2026-12-31T18:00."),
    ] = None,
    session: SessionOption = None,
    cwd: FolderOption = None,
    format: FormatOption = "text",
) -> None:
    """Add a rule to a session, or to the settings of its folder or of yours; it holds at once."""
    wanted = {"behavior": behavior, "rule": rule, "scope": scope, "expires_at": parse_expiry(until) if until else None}
    made = run_with_daemon(context, _build_change("rule/add", wanted, session, cwd))
    if format == "json":
        say_json(made)
        return
    ends = f", until {made['expires_at']}" if made["expires_at"] else ""
    say(f"Added {_describe_change(made)}{ends}")


@group.command()
def remove(
    context: typer.Context,
    behavior: BehaviorArgument,
    rule: RuleArgument,
    scope: ScopeOption = "session",
    session: SessionOption = None,
    cwd: FolderOption = None,
    format: FormatOption = "text",
) -> None:
    """Remove a rule from a session, or from the settings of its folder or of yours."""
    wanted = {"behavior": behavior, "rule": rule, "scope": scope}
    gone = run_with_daemon(context, _build_change("rule/remove", wanted, session, cwd))
    if format == "json":
        say_json(gone)
    else:
        say(f"Removed {_describe_change(gone)}")


def _build_change(
    method: str, wanted: dict[str, Any], session: str | None, cwd: str | None
) -> "Callable[[Ostler], Awaitable[dict[str, Any]]]":
    async def change(ostler: "Ostler") -> dict[str, Any]:
        session_id = await choose_session(ostler, session, cwd)
        answer: dict[str, Any] = await ostler.request(method, {**wanted, "session_id": session_id})
        return {"session_id": session_id, **answer}

    return change


def _describe_change(change: dict[str, Any]) -> str:
    place = f"in {change['file']}" if change["file"] else f"of session {change['session_id']}"
    return sanitize(f"{change['behavior']} {change['rule']} {place}")


@group.command()
def explain(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool, like Bash.")],
    what: Annotated[
        str | None,
        typer.Argument(metavar="[WHAT]", help="Its main parameter: the command, the file, the address."),
    ] = None,
    input: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="All of its input, instead of WHAT.")
    ] = None,
    session: SessionOption = None,
    cwd: FolderOption = None,
    format: FormatOption = "text",
) -> None:
    """Say what would be done with a call now, and why, without doing it. Hooks are not run."""
    from ostler.clients.cli.tool_input import build_input, require_one

    require_one(what, input)

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        session_id = await choose_session(ostler, session, cwd)
        given = await build_input(ostler, session_id, tool, what, input)
        wanted = {"session_id": session_id, "tool": tool, "input": given}
        answer: dict[str, Any] = await ostler.request("rule/explain", wanted)
        return answer

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    say(colourize(found["behavior"], COLOURS[found["behavior"]]))
    reads = "yes" if found["read_only"] else "no"
    names = ("by", "rule", "source", "reason")
    say(format_facts([*((name, found[name] or None) for name in names), ("only reads", reads)]))
    if grants := found.get("grants"):
        say(f"  {colourize('granted', 'dim')}  {sanitize('; '.join(grants))}  {colourize('(a model is asked)', 'dim')}")
    for part in found["parts"]:
        say(format_part(part))
    for line in format_effects(found.get("effects") or {}):
        say(line)


def parse_expiry(text: str) -> str:
    """Parse a span from now like `30m`, or a time of the clock here like `2026-12-31T18:00`, as the wire writes it."""
    from ostler.protocol import times

    now = datetime.now().astimezone()
    span = _SPAN.fullmatch(text.strip())
    try:
        ends = now + timedelta(**{_UNITS[span[2]]: int(span[1])}) if span else datetime.fromisoformat(text.strip())
        written = times.format_time(ends)
    except (ValueError, OverflowError) as wrong:
        raise typer.BadParameter(f"--until {text}: neither a span like 30m, 2h or 7d nor a time") from wrong
    if written <= times.format_time(now):
        raise typer.BadParameter(f"--until {text}: that is over already")
    return written
