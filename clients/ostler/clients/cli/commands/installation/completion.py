"""`completion`: a script that makes a shell complete this command, and the ids that it offers."""

import os
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Literal, get_type_hints

import typer

from ostler.clients.cli import quick_rpc
from ostler.clients.cli.output import fit, say
from ostler.protocol.places import find_places

Shell = Literal["bash", "zsh", "fish"]
_VARIABLE: Final = "_OSTLER_COMPLETE"
"""Set by the script of a shell that wants to know how a line could go on."""
CompletionItem = tuple[str, str]
"""An id, and what it is about."""
_SECONDS: Final = 1.0
_MAX_IDS: Final = 500
_RECENT_IDS: Final = 50
_ABOUT_WIDTH: Final = 60
_ID: Final = re.compile(r"\w+")
_MODEL_NAME: Final = re.compile(r"[\w.@-]+", re.ASCII)
"""Without what shells take for something else, a colon also: a provider names its models as it likes."""
# Shells evaluate what they are offered, and titles and commands come from anybody.
_UNSAFE: Final = re.compile(r"[^\w ,.+=/-]+")


def add_to(app: typer.Typer) -> None:
    app.command()(completion)


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print the completion script of a shell."""
    from typer._completion_shared import get_completion_script

    say(get_completion_script(prog_name="ostler", complete_var=_VARIABLE, shell=shell))


def prepare(app: typer.Typer) -> None:
    """Where a shell asks, ids are offered too; no other command has a use for them."""
    if _VARIABLE not in os.environ:
        return
    register_completers(app)


def complete_session_ids(context: typer.Context, incomplete: str) -> list[CompletionItem]:
    """The newest ones, and older ones to whoever has begun with an id."""
    limit = _MAX_IDS if incomplete.removeprefix("s_") else _RECENT_IDS
    found = _fetch_rows(context, "session/list", "sessions", {"archived": None, "limit": limit})
    return [_build_item(one["id"], one["status"], one["title"] or one["cwd"]) for one in found]


def complete_ask_ids(context: typer.Context) -> list[CompletionItem]:
    """The open ones."""
    found = _fetch_rows(context, "ask/list", "asks", {"limit": _MAX_IDS})
    return [_build_item(one["id"], one["kind"], (one["call"] or {}).get("summary") or one["message"]) for one in found]


def complete_task_ids(context: typer.Context) -> list[CompletionItem]:
    """What runs first, then what is over."""
    found = _fetch_rows(context, "task/list", "tasks", {"status": None, "limit": _MAX_IDS})
    running_first = sorted(found, key=lambda one: one["status"] != "running")
    return [_build_item(one["id"], one["status"], one["command"] or one["description"]) for one in running_first]


def complete_model_names(context: typer.Context) -> list[CompletionItem]:
    """The one in force first."""
    found = _fetch_rows(context, "model/list", "models", {"limit": _MAX_IDS}, _MODEL_NAME)
    default_first = sorted(found, key=lambda one: not one["default"])
    return [_build_item(one["id"], "default" if one["default"] else "", one["display_name"]) for one in default_first]


def complete_providers() -> list[CompletionItem]:
    """Those that a key can be kept for."""
    from ostler.protocol.credentials import PROVIDERS

    return [_build_item(one.name, one.serves, "") for one in PROVIDERS.values()]


def _build_item(thing_id: str, state: str, about: str) -> CompletionItem:
    return thing_id, fit(_UNSAFE.sub(" ", f"{state} {about}".strip()), _ABOUT_WIDTH)


def _fetch_rows(
    context: typer.Context, method: str, noun: str, params: dict[str, Any], name: re.Pattern[str] = _ID
) -> list[dict[str, Any]]:
    places = find_places(context.find_root().params.get("home"))
    # Nothing where it fails: somebody pressed a key, and that is no moment to complain.
    rows = quick_rpc.call(places, method, params, _SECONDS).get(noun, [])
    return [row for row in rows if name.fullmatch(row["id"])]


_COMPLETERS: Final[dict[str, Callable[..., list[CompletionItem]]]] = {
    "session": complete_session_ids,
    "session_id": complete_session_ids,
    "session_ids": complete_session_ids,
    "ask_id": complete_ask_ids,
    "task_id": complete_task_ids,
    "task_ids": complete_task_ids,
    "model": complete_model_names,
    "provider": complete_providers,
}


def register_completers(app: typer.Typer) -> None:
    """Every parameter with the name of an id completes it, also that of a command that is written tomorrow."""
    for callback in _list_callbacks(app):
        for name, hint in get_type_hints(callback, include_extras=True).items():
            for declared in getattr(hint, "__metadata__", ()) if name in _COMPLETERS else ():
                declared.autocompletion = _COMPLETERS[name]


def _list_callbacks(app: typer.Typer) -> Iterator[Callable[..., Any]]:
    yield from (command.callback for command in app.registered_commands if command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from _list_callbacks(group.typer_instance)
    if app.registered_callback is not None and app.registered_callback.callback is not None:
        yield app.registered_callback.callback
