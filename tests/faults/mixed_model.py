"""A model that does a bit of everything: it talks slowly, reads, writes, runs commands and needs permission."""

import itertools
import random
from pathlib import Path
from typing import Final

from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import Recorded
from tests.support.messages_api.replies import Part, calls, message, pause, says
from tests.support.messages_api.scripts import Script

MODEL: Final = "mix"
"""The name of its script: a session says `[mix:NAME]` in its first words."""
READABLE: Final = "notes.txt"
_MOST_PIECES: Final = 12


class MixedModel:
    """Each call of it has a token of its own, so that whoever runs one twice is found out."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.marks = folder / "marks"
        """Where each command leaves its token, once for each time that it runs."""
        self.brief = False
        """Set at the end: it only talks, so that every turn comes to its own."""
        self._folder = folder
        self._seed = seed
        self._serial = itertools.count()

    @property
    def script(self) -> Script:
        return Script(MODEL, (), self._answer)

    def _answer(self, request: Recorded) -> Reply:
        chance = random.Random(f"{self._seed} {request.conversation} {request.step} {request.message_count}")
        name = request.conversation.partition(":")[2]
        if self.brief:
            return message(says("Done."))
        kinds = (self._words, self._reads, self._commands, self._everything, self._questions)
        parts = chance.choices(kinds, weights=(4, 1, 2, 3, 1))[0](name, chance)
        return message(*parts)

    # Kinds of messages.

    def _words(self, name: str, chance: random.Random) -> list[Part]:
        return [_slow_words(chance)]

    def _reads(self, name: str, chance: random.Random) -> list[Part]:
        return [_slow_words(chance), *(self._read(name) for _ in range(chance.randint(2, 6))), *_maybe_more(chance)]

    def _commands(self, name: str, chance: random.Random) -> list[Part]:
        commands = [self._command(chance) for _ in range(chance.randint(1, 3))]
        return [*_spread(commands, chance), *_maybe_more(chance)]

    def _questions(self, name: str, chance: random.Random) -> list[Part]:
        asking = [calls("TestingPermission", {}) for _ in range(chance.randint(1, 3))]
        return [*_spread([self._read(name), *asking], chance), *_maybe_more(chance)]

    def _everything(self, name: str, chance: random.Random) -> list[Part]:
        parts = [self._read(name), self._command(chance), self._write(name), self._read(name), self._command(chance)]
        parts.append(calls("TestingPermission", {}))
        chance.shuffle(parts)
        return [_slow_words(chance), *_spread(parts[: chance.randint(2, 6)], chance), *_maybe_more(chance)]

    # Calls.

    def _read(self, name: str) -> Part:
        return calls("Read", {"file_path": str(self._folder / name / READABLE)})

    def _command(self, chance: random.Random) -> Part:
        seconds = chance.choice((0, 0, 0.1, 0.5))
        command = f"echo token-{next(self._serial)} >> {self.marks}; sleep {seconds}"
        return calls("Bash", {"command": command}, piece_chars=chance.choice((0, 7)))

    def _write(self, name: str) -> Part:
        number = next(self._serial)
        path = self._folder / name / f"written-{number}"
        return calls("Write", {"file_path": str(path), "content": f"content-{number}"}, piece_chars=20)


def _slow_words(chance: random.Random) -> Part:
    wait = chance.choice((0, 0.005, 0.03))
    pieces = [(f"word{number} ", pause(wait)) for number in range(chance.randint(1, _MOST_PIECES))]
    return says(*(part for piece in pieces for part in piece))


def _spread(parts: list[Part], chance: random.Random) -> list[Part]:
    """With a pause here and there, in which the first calls already run."""
    waits = (chance.choice((0, 0, 0.02, 0.1)) for _ in parts)
    return [each for part, wait in zip(parts, waits, strict=True) for each in (part, pause(wait))]


def _maybe_more(chance: random.Random) -> list[Part]:
    return [_slow_words(chance)] if chance.random() < 0.4 else []
