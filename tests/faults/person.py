"""A scripted person: starts turns, steers and interrupts them, and answers asks, or does not."""

import random
from pathlib import Path
from typing import Any, Final

from tests.faults.call_ledger import CallLedger
from tests.faults.caller import Caller, ConnectionLost
from tests.faults.mixed_model import MODEL, READABLE_FILE
from tests.support.daemon import Daemon

_MAX_TURNS: Final = 6
_MAX_QUEUED: Final = 2
_ANSWERS: Final[tuple[dict[str, Any], ...]] = (
    {"choice": "allow"},
    {"choice": "deny", "message": "Rather not."},
    {"choice": "deny"},
)


class Person:
    def __init__(self, name: str, folder: Path, seed: int) -> None:
        self.name = name
        self.ledger = CallLedger()
        self._folder = folder
        self._random = random.Random(f"{seed} {name}")
        self._serial = 0

    def run(self, daemon: Daemon) -> None:
        """Go on until the daemon is gone."""
        with Caller(daemon) as caller:
            try:
                while True:
                    self._step(caller)
            except ConnectionLost:
                return

    def finish(self, daemon: Daemon) -> bool:
        """Answer the open asks; false while a turn still runs."""
        with Caller(daemon) as caller:
            unfinished = 0
            for expected in self.ledger.sessions:
                session = caller.call("session/get", session_id=expected.id)
                for ask in session["asks"]:
                    self.ledger.allow_ask(caller, ask["id"])
                turns = caller.call("turn/list", session_id=expected.id)["turns"]
                unfinished += any(turn["status"] != "ended" for turn in turns) or session["status"] != "idle"
            return not unfinished

    def _step(self, caller: Caller) -> None:
        if not self.ledger.sessions or len(self.ledger.current_session.turn_ids) >= _MAX_TURNS:
            self._create_next_session(caller)
            return
        session = caller.call("session/get", session_id=self.ledger.current_session.id)
        turn = session["turn"]
        if session["asks"] and self._random.random() < 0.6:
            ask = self._random.choice(session["asks"])
            self.ledger.answer_ask(caller, ask["id"], self._random.choices(_ANSWERS, weights=(8, 2, 1))[0])
        elif turn is None:
            self.ledger.start_turn(caller, self._make_input())
        else:
            self._act_during_turn(caller, turn["id"])

    def _create_next_session(self, caller: Caller) -> None:
        """Create the next session, when the one before is idle."""
        if self.ledger.sessions and not self._settle_session(caller):
            return
        name = f"{self.name}-{len(self.ledger.sessions)}"
        cwd = self._folder / name
        cwd.mkdir(exist_ok=True)
        (cwd / READABLE_FILE).write_text("Something to read.\n" * 20)
        options: dict[str, Any] = {"on_restart": "resume"} if self._random.random() < 0.5 else {}
        if self._random.random() < 0.6:
            options["rules"] = {"allow": ["Bash"]}
        env = {"FAULTS_TRIAL": str(self._folder)}
        self.ledger.create_session(caller, name, cwd=str(cwd), mode="acceptEdits", env=env, **options)

    def _settle_session(self, caller: Caller) -> bool:
        session = caller.call("session/get", session_id=self.ledger.current_session.id)
        for ask in session["asks"]:
            self.ledger.answer_ask(caller, ask["id"], {"choice": "allow"})
        turn = session["turn"]
        if turn is not None:
            caller.call("turn/wait", turn_id=turn["id"], timeout_ms=200)
        return turn is None

    def _act_during_turn(self, caller: Caller, turn_id: str) -> None:
        chance = self._random.random()
        if chance < 0.12:
            self.ledger.steer_turn(caller, turn_id, self._make_input(), now=self._random.random() < 0.3)
        elif chance < 0.2 and len(self.ledger.current_session.turn_ids) < _MAX_TURNS:
            self.ledger.start_turn(caller, self._make_input(), queue=True)
        elif chance < 0.24:
            self.ledger.interrupt_turn(caller, turn_id)
        else:
            caller.call("turn/wait", turn_id=turn_id, timeout_ms=self._random.choice((10, 50, 200)))

    def _make_input(self) -> str:
        self._serial += 1
        text = f"say {self.name}.{self._serial};"
        return text if self.ledger.current_session.inputs else f"[{MODEL}:{self.ledger.current_session.name}] {text}"
