"""The input of a call, as it is typed and summarized: a bare string is the tool's main parameter."""

import json
import os
from typing import TYPE_CHECKING, Any, Final

import typer

from ostler.clients.cli.session_choice import fetch_all_pages
from ostler.clients.sdk.errors import ClientError

if TYPE_CHECKING:
    from ostler.clients import Ostler

_FILE_PARAMETERS: Final = frozenset({"file_path", "notebook_path", "path"})
"""Parameters that name a file, which is meant from the folder of the session."""

_MAIN_PARAMETERS: Final = (
    "command",
    *sorted(_FILE_PARAMETERS),
    "pattern",
    "url",
    "query",
    "skill",
    "description",
    "task_id",
)
"""Parameters that say by themselves what a call is about, the most telling first."""


def summarize_input(tool_input: dict[str, Any]) -> str:
    """What a call was about, in one line, for whoever reads of it later."""
    main = next((tool_input[name] for name in _MAIN_PARAMETERS if isinstance(tool_input.get(name), str)), None)
    return main.strip().replace("\n", " ⏎ ") if main is not None else json.dumps(tool_input, ensure_ascii=False)


def require_one(what: str | None, text: str | None) -> None:
    if (what is None) == (text is None):
        raise typer.BadParameter("give WHAT or --input JSON: one of them, not both")


def parse_json_object(text: str) -> dict[str, Any]:
    """Parse what `--input` says."""
    try:
        found = json.loads(text)
    except ValueError as wrong:
        raise typer.BadParameter(f"--input is not JSON: {wrong}") from wrong
    if not isinstance(found, dict):
        raise typer.BadParameter("--input is not a JSON object")
    return found


async def build_input(
    ostler: "Ostler", session_id: str, tool: str, what: str | None, text: str | None
) -> dict[str, Any]:
    """The input that was given as JSON, or the one whose main parameter was given."""
    if text is not None:
        return parse_json_object(text)
    found = await _find_tool(ostler, session_id, tool)
    # The first that has to be given: the command, the file, the address, the pattern.
    name = next(iter(found["input_schema"].get("required", ())), None)
    if name is None:
        raise ClientError(f"{tool} has no main parameter. Give all of its input with --input JSON.")
    if name not in _FILE_PARAMETERS:
        return {name: what}
    folder = (await ostler.request("session/get", {"session_id": session_id}))["cwd"]
    return {name: _resolve_file(folder, what or "")}


def _resolve_file(folder: str, what: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(what)))


async def _find_tool(ostler: "Ostler", session_id: str, tool: str) -> dict[str, Any]:
    tools = (await fetch_all_pages(ostler, "tool/list", {"session_id": session_id}, "tools"))["tools"]
    found: dict[str, Any] | None = next((one for one in tools if tool in {one["name"], *one["aliases"]}), None)
    if found is None:
        raise ClientError(f"There is no tool {tool!r}. `ostler tools` lists what there is.")
    return found
