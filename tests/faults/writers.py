"""The write load: writers that each own some sessions and change them as fast as they are answered."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.faults.caller import Caller, CallRefused, ConnectionLost
from tests.faults.ledger import Change, Ledger, State, get_state
from tests.support.daemon import Daemon

_MIN_SESSIONS: Final = 3
_MAX_SESSIONS: Final = 10
_STOPPING_CODES: Final = {"shutting_down", "read_only", "storage_error"}


class Writer:
    """Creates, updates, archives, forks, deletes and reads its own sessions."""

    def __init__(self, name: str, folder: Path, seed: int) -> None:
        self.ledger = Ledger()
        self._name = name
        self._folder = folder
        self._random = random.Random(f"{seed} {name}")
        self._serial = 0

    def run(self, daemon: Daemon) -> None:
        """Go on until the daemon is gone or refuses to write."""
        with Caller(daemon) as caller:
            try:
                while True:
                    self._step(caller)
            except ConnectionLost:
                return
            except CallRefused as refused:
                if refused.code not in _STOPPING_CODES:
                    raise

    def _step(self, caller: Caller) -> None:
        kind: Callable[[], Change] | None
        if len(self.ledger.states) < _MIN_SESSIONS:
            kind = self._create
        elif len(self.ledger.states) > _MAX_SESSIONS:
            kind = self._delete
        else:
            choices = (self._create, self._update, self._archive, self._fork, self._delete, None)
            kind = self._random.choices(choices, weights=(3, 8, 2, 2, 4, 3))[0]
        if kind is None:
            self._read(caller)
        else:
            self.ledger.make_change(caller, kind())

    def _create(self) -> Change:
        name = self._new_name()
        params = {"cwd": str(self._folder), "title": name, "metadata": {"number": 0}, "idempotency_key": name}
        return Change("session/create", params, State(name, 0, archived=False))

    def _update(self) -> Change:
        session_id, state = self._pick()
        after = State(f"{self._name} {state.number + 1}", state.number + 1, state.archived)
        params = {"session_id": session_id, "title": after.title, "metadata": {"number": after.number}}
        return Change("session/update", params, after)

    def _archive(self) -> Change:
        session_id, state = self._pick()
        after = State(state.title, state.number, not state.archived)
        return Change("session/archive", {"session_id": session_id, "archived": after.archived}, after)

    def _fork(self) -> Change:
        session_id, state = self._pick()
        name = self._new_name()
        params = {"session_id": session_id, "title": name, "idempotency_key": name}
        return Change("session/fork", params, State(name, state.number, archived=False))

    def _delete(self) -> Change:
        session_id, _ = self._pick()
        return Change("session/delete", {"session_id": session_id}, None)

    def _read(self, caller: Caller) -> None:
        session_id, state = self._pick()
        stored = get_state(caller, session_id)
        if stored != state:
            self.ledger.problems.append(f"session/get {session_id} gave {stored}; acknowledged was {state}")

    def _pick(self) -> tuple[str, State]:
        return self._random.choice(list(self.ledger.states.items()))

    def _new_name(self) -> str:
        self._serial += 1
        return f"{self._name}-{self._serial}"
