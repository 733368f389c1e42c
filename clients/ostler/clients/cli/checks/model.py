"""Which model answers, and whether it is only the rehearsal because there is no key."""

import os
from collections.abc import Iterator
from typing import Final

from ostler.clients.cli import quick_rpc
from ostler.clients.cli.checks.base import Finding
from ostler.clients.cli.checks.credentials import read_stored_keys
from ostler.clients.cli.notices import is_rehearsal
from ostler.protocol.credentials import DEFAULT_PROVIDER, BadCredentials
from ostler.protocol.places import Places

_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")
_REHEARSAL: Final = "rehearsal: it needs no key and understands only plain requests"
_KEY_HINT: Final = "`ostler auth login` keeps a key for a real one; ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL are heeded"
_RESTART_HINT: Final = "`ostler stop`, then `ostler start`"


def check_model(places: Places) -> Iterator[Finding]:
    """As the daemon that runs has it; else as the next one would, started from here."""
    key = next((name for name in _KEYS if os.environ.get(name)), None)
    info = quick_rpc.call(places, "server/info", {})
    if info:
        yield _check_running(info["model"], info["provider"], key)
    else:
        yield _check_next_start(_read_configured_model(places), f"{key} is set here" if key else _find_kept(places))


def _check_running(name: str, provider: str, key: str | None) -> Finding:
    if not is_rehearsal(name):
        return Finding("ok", "model", f"{name} ({provider})")
    # The daemon has the variables of its own start, and nobody who has set one since expects that.
    here = (
        f"{key} is set here, and the daemon started without it: {_RESTART_HINT}."
        if key
        else f"{_KEY_HINT} by a daemon that starts with them."
    )
    return Finding("warn", "model", _REHEARSAL, here)


def _check_next_start(name: str | None, key: str | None) -> Finding:
    if name is None and key is None:
        return Finding("warn", "model", _REHEARSAL, f"{_KEY_HINT} as the daemon starts.")
    if name is not None and is_rehearsal(name):
        return Finding("warn", "model", _REHEARSAL, "It is set so; `ostler config unset model.name` changes that.")
    if key is None:
        return Finding(
            "warn", "model", f"{name}, and there is no key for it here", f"{_KEY_HINT} as the daemon starts."
        )
    return Finding("ok", "model", f"{name or 'the default one'}; {key}")


def _find_kept(places: Places) -> str | None:
    try:
        return "its key is kept" if DEFAULT_PROVIDER in read_stored_keys(places) else None
    except FileNotFoundError:
        return None
    except (BadCredentials, OSError):
        return "its key cannot be read"  # what is wrong with the file is told by the check of the file


def _read_configured_model(places: Places) -> str | None:
    import tomllib

    from ostler.protocol.config import Config

    value = os.environ.get("OSTLER_MODEL")
    if value:
        return value
    try:
        return Config.model_validate(tomllib.loads(places.config_file.read_text("utf-8"))).model.name
    except (OSError, ValueError):
        return None  # what is wrong with the file is told by the check of the file
