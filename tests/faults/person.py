"""A person with a session: says something, says more, answers, does not answer, loses patience."""

import random
from pathlib import Path
from typing import Any, Final

from tests.faults.caller import Caller, Lost
from tests.faults.diary import Diary
from tests.faults.mixed_model import MODEL, READABLE
from tests.support.daemon import Daemon

_MOST_TURNS: Final = 6
_MOST_QUEUED: Final = 2
_ANSWERS: Final[tuple[dict[str, Any], ...]] = (
    {"choice": "allow"},
    {"choice": "deny", "message": "Rather not."},
    {"choice": "deny"},
)


class Person:
    def __init__(self, name: str, folder: Path, seed: int) -> None:
        self.name = name
        self.diary = Diary()
        self._folder = folder
        self._random = random.Random(f"{seed} {name}")
        self._serial = 0

    def run(self, daemon: Daemon) -> None:
        """Go on until the daemon is gone."""
        with Caller(daemon) as caller:
            try:
                while True:
                    self._step(caller)
            except Lost:
                return

    def finish(self, daemon: Daemon) -> bool:
        """Answer what is asked until nothing runs any more; false while something does."""
        with Caller(daemon) as caller:
            unfinished = 0
            for kept in self.diary.sessions:
                session = caller.call("session/get", session_id=kept.id)
                for ask in session["asks"]:
                    self.diary.settle_ask(caller, ask["id"])
                turns = caller.call("turn/list", session_id=kept.id)["turns"]
                unfinished += any(turn["status"] != "ended" for turn in turns) or session["status"] != "idle"
            return not unfinished

    def _step(self, caller: Caller) -> None:
        if not self.diary.sessions or len(self.diary.session.turns) >= _MOST_TURNS:
            self._leave_or_create(caller)
            return
        session = caller.call("session/get", session_id=self.diary.session.id)
        turn = session["turn"]
        if session["asks"] and self._random.random() < 0.6:
            ask = self._random.choice(session["asks"])
            self.diary.answer(caller, ask["id"], self._random.choices(_ANSWERS, weights=(8, 2, 1))[0])
        elif turn is None:
            self.diary.start(caller, self._words())
        else:
            self._meanwhile(caller, turn["id"])

    def _leave_or_create(self, caller: Caller) -> None:
        """A new session, when the one before has come to rest."""
        if self.diary.sessions and not self._at_rest(caller):
            return
        name = f"{self.name}-{len(self.diary.sessions)}"
        cwd = self._folder / name
        cwd.mkdir(exist_ok=True)
        (cwd / READABLE).write_text("Something to read.\n" * 20)
        options: dict[str, Any] = {"on_restart": "resume"} if self._random.random() < 0.5 else {}
        if self._random.random() < 0.6:
            options["rules"] = {"allow": ["Bash"]}
        env = {"FAULTS_TRIAL": str(self._folder)}
        self.diary.create(caller, name, cwd=str(cwd), mode="acceptEdits", env=env, **options)

    def _at_rest(self, caller: Caller) -> bool:
        session = caller.call("session/get", session_id=self.diary.session.id)
        for ask in session["asks"]:
            self.diary.answer(caller, ask["id"], {"choice": "allow"})
        turn = session["turn"]
        if turn is not None:
            caller.call("turn/wait", turn_id=turn["id"], timeout_ms=200)
        return turn is None

    def _meanwhile(self, caller: Caller, turn_id: str) -> None:
        chance = self._random.random()
        if chance < 0.12:
            self.diary.steer(caller, turn_id, self._words(), now=self._random.random() < 0.3)
        elif chance < 0.2 and len(self.diary.session.turns) < _MOST_TURNS:
            self.diary.start(caller, self._words(), queue=True)
        elif chance < 0.24:
            self.diary.interrupt(caller, turn_id)
        else:
            caller.call("turn/wait", turn_id=turn_id, timeout_ms=self._random.choice((10, 50, 200)))

    def _words(self) -> str:
        self._serial += 1
        words = f"say {self.name}.{self._serial};"
        return words if self.diary.session.said else f"[{MODEL}:{self.diary.session.name}] {words}"
