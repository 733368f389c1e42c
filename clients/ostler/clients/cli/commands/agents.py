"""`agents`: the agents that work for a session, and the kinds that it may start."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.output import Format, fit, note, sanitize, say, say_json
from ostler.clients.cli.session_choice import FolderOption, SessionOption, choose_session, fetch_all_pages

if TYPE_CHECKING:
    from ostler.clients import Ostler


def add_to(app: typer.Typer) -> None:
    app.command()(agents)


def agents(
    context: typer.Context,
    session: SessionOption = None,
    cwd: FolderOption = None,
    kinds: Annotated[bool, typer.Option("--kinds", help="The kinds of agents in the place of the agents.")] = False,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """List the agents that work, or have worked, for a session."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        session_id = await choose_session(ostler, session, cwd)
        answer: dict[str, Any] = await fetch_all_pages(ostler, "agent/list", {"session_id": session_id}, "agents")
        return answer

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    for line in map(_format_kind, found["kinds"]) if kinds else map(_format_agent, found["agents"]):
        say(line)
    for error in found["errors"]:
        note(f"{sanitize(error['path'])}:{error['line']}: {sanitize(error['message'])}")
    if not kinds and not found["agents"]:
        note("No agent has worked for this session.")


def _format_agent(agent: dict[str, Any]) -> str:
    what = sanitize(f"{agent['name']}: {agent['description']}" if agent["name"] else agent["description"])
    agent_id, task_id = agent["agent_id"] or "-", agent["task_id"] or "-"
    return "\t".join((agent_id, agent["status"], sanitize(agent["kind"]), task_id, what))


def _format_kind(kind: dict[str, Any]) -> str:
    tools = ", ".join(kind["tools"]) if kind["tools"] is not None else "all"
    return "\t".join((sanitize(kind["name"]), kind["source"], sanitize(tools), fit(sanitize(kind["description"]), 100)))
