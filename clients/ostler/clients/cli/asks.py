"""`asks`, `answer`: what agents want to know, and the answer from any terminal."""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from ostler.clients._errors import ClientError
from ostler.clients.cli.output import Format, coloured, fit, is_terminal, note, printable, say, say_json
from ostler.clients.cli.setting import with_daemon
from ostler.clients.cli.tool_input import json_object
from ostler.protocol.errors import AskResolved, ProtocolError
from ostler.protocol.limits import MAX_PAGE

if TYPE_CHECKING:
    from ostler.clients import Ostler

Choice = Literal[
    "allow",
    "allow_always",
    "deny",
    "deny_always",
    "answer",
    "decline",
    "approve",
    "reject",
    "accept",
    "cancel",
    "trust",
    "restrict",
]
ScopeName = Literal["session", "local", "project", "user"]

_TAKES: Final[dict[str, frozenset[str]]] = {
    "allow": frozenset({"input"}),
    "allow_always": frozenset({"rule", "scope"}),
    "deny": frozenset({"message", "interrupt"}),
    "deny_always": frozenset({"rule", "scope", "message", "interrupt"}),
    "answer": frozenset({"input"}),
    "decline": frozenset({"message"}),
    "approve": frozenset({"message"}),
    "reject": frozenset({"message"}),
    "accept": frozenset({"input"}),
}
_SUBJECT_WIDTH: Final = 60
_BROUGHT_WIDTH: Final = 400
_FIELDS: Final = {("answer", "input"): "answers", ("accept", "input"): "content", ("approve", "message"): "plan"}


def add_to(app: typer.Typer) -> None:
    for command in (asks, answer):
        app.command()(command)


def asks(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Only those of this session and its agents.")
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="Those that are settled too.")] = False,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """List what is asked, oldest first."""

    async def ask(ostler: "Ostler") -> list[dict[str, Any]]:
        return await list_asks(ostler, session, None if all else "open")

    found = with_daemon(context, ask)
    if format == "json":
        say_json({"asks": found, "next": None})
        return
    for one in found:
        say(_line(one))
    if not found:
        note("Nothing is asked.")
    elif is_terminal() and any(one["status"] == "open" for one in found):
        note("Answer with `ostler answer ID CHOICE`; the end of an ID is enough.")


async def list_asks(ostler: "Ostler", session_id: str | None, status: str | None) -> list[dict[str, Any]]:
    """All of them, however many pages they take."""
    found: list[dict[str, Any]] = []
    page: str | None = None
    while True:
        wanted = {"session_id": session_id, "status": status, "limit": MAX_PAGE, "page": page}
        answered = await ostler.request("ask/list", wanted)
        found += answered["asks"]
        page = answered["next"]
        if page is None:
            return found


def _line(ask: dict[str, Any]) -> str:
    cells = [ask["id"], ask["status"], ask["kind"], ask["session_id"], _subject(ask), "|".join(ask["choices"])]
    if not is_terminal():
        return "\t".join(cells)
    ask_id, status, kind, session_id, subject, choices = cells
    status = coloured(f"{status:<9}", "yellow" if status == "open" else "dim")
    return f"{ask_id}  {status}  {kind:<11}  {session_id}  {subject}  {coloured(choices, 'dim')}"


def _subject(ask: dict[str, Any]) -> str:
    call = ask.get("call")
    if call:
        return fit(printable(f"{call['tool']} {call.get('summary', '')}"), _SUBJECT_WIDTH)
    # Nobody can trust what they do not see, so that is longer.
    brought = "; ".join(str(one.get("text", "")) for one in ask.get("what") or [])
    words = printable(f"{ask.get('message', '')} {brought}")
    return fit(words, _BROUGHT_WIDTH if brought else _SUBJECT_WIDTH)


def answer(
    context: typer.Context,
    ask_id: Annotated[str, typer.Argument(metavar="ID", help="The ask: its id, or the start or end of it.")],
    choice: Annotated[Choice, typer.Argument(help="One of the ask's choices.")],
    message: Annotated[
        str | None, typer.Option("--message", metavar="TEXT", help="Words for the model; for a plan, the changed plan.")
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="RULE", help="What to remember; else the ask's first suggestion.")
    ] = None,
    scope: Annotated[ScopeName | None, typer.Option("--scope", help="How far the rule reaches.")] = None,
    input: Annotated[
        str | None,
        typer.Option("--input", metavar="JSON", help="A changed input, the answers by question, or what is asked for."),
    ] = None,
    interrupt: Annotated[
        bool | None,
        typer.Option("--interrupt/--no-interrupt", help="Whether a denial ends the turn; else only without words."),
    ] = None,
) -> None:
    """Answer an ask; the first answer wins."""
    changed = json_object(input) if input is not None else None
    given = {"message": message, "rule": rule, "scope": scope, "input": changed, "interrupt": interrupt}
    said = _answer(choice, {name: value for name, value in given.items() if value is not None})

    async def resolve(ostler: "Ostler") -> str:
        whole_id = await _whole_id(ostler, ask_id)
        try:
            await ostler.request("ask/resolve", {"ask_id": whole_id, "answer": said})
        except AskResolved as late:
            raise ClientError(await _outcome(ostler, late.data["ask"])) from late
        return whole_id

    say(f"Answered {with_daemon(context, resolve)}: {choice}")


def _answer(choice: str, given: dict[str, Any]) -> dict[str, Any]:
    strange = sorted(given.keys() - _TAKES.get(choice, frozenset()))
    if strange:
        raise typer.BadParameter(f"{', '.join(f'--{name}' for name in strange)}: not together with {choice}")
    return {"choice": choice, **{_FIELDS.get((choice, name), name): value for name, value in given.items()}}


async def _whole_id(ostler: "Ostler", given: str) -> str:
    """The id that begins or ends so: of an open ask, or else of one that is settled, whose answer is then told."""
    for status in ("open", None):
        ids = [one["id"] for one in await list_asks(ostler, None, status)]
        found = [one for one in ids if one.startswith(given) or one.endswith(given)]
        if given in found or len(found) == 1:
            return given if given in found else found[0]
        if found:
            raise ClientError(f"{given!r} could be any of {', '.join(found[:5])}. Give more of it.")
    raise ClientError(f"There is no ask {given!r}. `ostler asks` lists what is open.")


async def _outcome(ostler: "Ostler", ask: dict[str, Any]) -> str:
    if ask["status"] != "resolved":
        return f"Too late: the ask {ask['id']} is {ask['status']}."
    who = await client_name(ostler, ask.get("answered_by"))
    return f"Too late: {who} answered {ask['id']} with {(ask.get('answer') or {}).get('choice', 'something')}."


async def client_name(ostler: "Ostler", client_id: str | None) -> str:
    """What people call a client, with its id where that says more."""
    if client_id == ostler.daemon.client_id:
        return "this terminal"
    if client_id is None or not client_id.startswith("c_"):
        return client_id or "somebody"
    try:
        clients = (await ostler.request("client/list"))["clients"]
    except (ClientError, ProtocolError):
        return client_id  # the name is a nicety
    name = next((client["name"] for client in clients if client["id"] == client_id), None)
    return f"{name} ({client_id})" if name else client_id
