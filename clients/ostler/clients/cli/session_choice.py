"""Which session a command is about: the one that was named, or the newest of a folder."""

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.sdk.errors import ClientError
from ostler.protocol.limits import MAX_PAGE

if TYPE_CHECKING:
    from ostler.clients import Ostler

SessionOption = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="The session; else the newest of the folder.")
]
FolderOption = Annotated[
    str | None, typer.Option("--cwd", metavar="DIR", help="The folder whose newest session is meant; else this one.")
]


def resolve_folder(folder: str | None) -> str:
    """The folder that was given, or this one."""
    return os.path.abspath(os.path.expanduser(folder or os.getcwd()))


async def find_newest_session(ostler: "Ostler", folder: str) -> str | None:
    """The session of this folder in which something happened last; agents' sessions are not meant."""
    found = (await ostler.request("session/list", {"cwd": folder}))["sessions"]
    return next((str(session["id"]) for session in found if session["parent_id"] is None), None)


async def choose_session(ostler: "Ostler", session: str | None, cwd: str | None) -> str:
    """The id of the session that is meant."""
    if session and cwd:
        raise typer.BadParameter("give --session or --cwd, not both")
    if session:
        return session
    folder = resolve_folder(cwd)
    newest = await find_newest_session(ostler, folder)
    if newest is None:
        others = "--session ID or --cwd DIR chooses another"
        raise ClientError(f"There is no session in {folder}. `ostler chat` begins one there; {others}.")
    return newest


async def fetch_all_pages(ostler: "Ostler", method: str, params: dict[str, Any], noun: str) -> dict[str, Any]:
    """All pages of a list as one."""
    rows: list[dict[str, Any]] = []
    page: str | None = None
    while True:
        answer: dict[str, Any] = await ostler.request(method, {**params, "limit": MAX_PAGE, "page": page})
        rows += answer[noun]
        page = answer["next"]
        if page is None:
            return {**answer, noun: rows}
