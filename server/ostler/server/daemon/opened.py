"""What a daemon is built on, and where it is: opened before the rest of it is imported."""

import os
from dataclasses import dataclass
from pathlib import Path

import anyio

from ostler.protocol.places import Places
from ostler.server.http.sockets import ListenSockets
from ostler.server.settings import POLICY, SettingsPlaces
from ostler.storage import Store


@dataclass(frozen=True, slots=True)
class Opened:
    """What a daemon is built on: whatever can be wrong for a reason outside of it has been found out by now."""

    sockets: ListenSockets
    token: bytes
    store: Store
    started_at: str
    stopping: anyio.Event


def make_settings_places(places: Places) -> SettingsPlaces:
    return SettingsPlaces(str(places.config), os.path.expanduser("~"), POLICY)


def find_output_folder(places: Places) -> Path:
    """Where the commands of sessions print to."""
    return places.data / "tasks"
