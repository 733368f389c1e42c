"""`auth`: keys to providers, kept for the daemon."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.help import CommandGroup
from ostler.clients.cli.output import Format, format_table, is_terminal, note, say, say_json
from ostler.protocol.credentials import DEFAULT_PROVIDER, PROVIDERS, is_usable_key

if TYPE_CHECKING:
    from ostler.clients import Ostler

_MAX_KEY_CHARS: Final = 10_000

group = CommandGroup(help="Keep, show and forget keys to providers.")

Provider = Annotated[
    str, typer.Argument(metavar="[PROVIDER]", help=f"Whose key ({', '.join(PROVIDERS)}).", show_default=True)
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="auth")


@group.callback(invoke_without_command=True)
def _without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        say(context.get_help())


@group.command()
def login(
    context: typer.Context,
    provider: Provider = DEFAULT_PROVIDER,
    keyring: Annotated[bool, typer.Option("--keyring", help="Keep it in the system's keyring, not in a file.")] = False,
) -> None:
    """Keep a key: typed unseen, or read from stdin. New turns use it at once."""
    _check_provider(provider)
    key = _read_key(provider)
    store = "keyring" if keyring else "file"
    state = _request(context, "auth/set", {"provider": provider, "api_key": key, "store": store})
    [kept] = state["keys"]
    where = "the system's keyring" if keyring else f"{state['path']}, which only you can read"
    say(f"Kept the key of {provider} in {where}.")
    if kept["variable"]:
        note(_describe_winner(kept))
    elif PROVIDERS[provider].serves == "models":
        note(f"New sessions use the model {state['model']}; `ostler models` lists what there is.")


@group.command()
def status(
    context: typer.Context,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Show which providers there is a key for, and where it is from."""
    state = _request(context, "auth/status", {})
    if format == "json":
        say_json(state)
        return
    for line in format_table([[key["provider"], key["serves"], _describe_source(key)] for key in state["keys"]], {}):
        say(line)
    for problem in dict.fromkeys(key["problem"] for key in state["keys"] if key["problem"]):
        note(problem)
    for key in state["keys"]:
        if key["variable"] and key["stored"]:
            note(_describe_winner(key))
    note(f"The model of new sessions is {state['model']}.")


@group.command()
def logout(context: typer.Context, provider: Provider = DEFAULT_PROVIDER) -> None:
    """Forget a key that was kept."""
    _check_provider(provider)
    state = _request(context, "auth/remove", {"provider": provider})
    [left] = state["keys"]
    say(f"Forgot the key of {provider}.")
    if left["variable"]:
        note(f"{left['variable']}, which the daemon was started with, has one still.")
    elif PROVIDERS[provider].serves == "models":
        note(f"New sessions use the model {state['model']}.")


def _check_provider(name: str) -> None:
    if name not in PROVIDERS:
        # Not what was given: somebody may have typed the key there.
        raise typer.BadParameter(f"PROVIDER must be one of {', '.join(PROVIDERS)}; a key is asked for, not given here")


def _read_key(provider: str) -> str:
    if is_terminal(sys.stdin):
        from getpass import getpass

        try:
            typed = getpass(f"Key of {provider} (it is not shown): ")
        except EOFError:
            typed = ""
    else:
        try:
            typed = sys.stdin.read(_MAX_KEY_CHARS + 1)
        except UnicodeError:
            typed = ""
    key = typed.strip()
    if not key:
        raise typer.BadParameter("no key was given: type it, or give it on stdin, as in `ostler auth login < FILE`")
    if not is_usable_key(key) or len(key) > _MAX_KEY_CHARS:
        raise typer.BadParameter("this is no key: a key is one line of printable ASCII without spaces")
    return key


def _request(context: typer.Context, method: str, params: dict[str, Any]) -> dict[str, Any]:
    async def ask(ostler: "Ostler") -> dict[str, Any]:
        answer: dict[str, Any] = await ostler.request(method, params)
        return answer

    return run_with_daemon(context, ask)


def _describe_source(key: dict[str, Any]) -> str:
    match key["source"]:
        case "environment":
            return f"{key['variable']} of the daemon's environment"
        case "file":
            return "kept in the file"
        case "keyring":
            return "kept in the system's keyring"
        case _:
            return "cannot be used" if key["problem"] else "none"


def _describe_winner(key: dict[str, Any]) -> str:
    return (
        f"{key['variable']}, which the daemon was started with, wins over the key of {key['provider']} that is kept. "
        "Start the daemon without it to use the kept one."
    )
