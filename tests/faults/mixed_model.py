"""A scripted model with random messages: slow text, reads, writes, commands and calls that need permission."""

import itertools
import random
from pathlib import Path
from typing import Final

from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import Part, calls, message, pause, says
from tests.support.messages_api.scripts import Script

MODEL: Final = "mix"
"""The name of its script: a session says `[mix:NAME]` in its first words."""
READABLE_FILE: Final = "notes.txt"
_MAX_PIECES: Final = 12


class MixedModel:
    """Each command and each written file has a number of its own, so that a call that runs twice is detected."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.marks = folder / "marks"
        """Where each command leaves its token, once for each time that it runs."""
        self.text_only = False
        """Set at the end: it makes no more calls, so that every turn ends."""
        self._folder = folder
        self._seed = seed
        self._serial = itertools.count()

    @property
    def script(self) -> Script:
        return Script(MODEL, (), self._answer)

    def _answer(self, request: RecordedRequest) -> Reply:
        rng = random.Random(f"{self._seed} {request.conversation} {request.step} {request.message_count}")
        name = request.conversation.partition(":")[2]
        if self.text_only:
            return message(says("Done."))
        kinds = (self._build_text, self._build_reads, self._build_commands, self._build_mixture, self._build_questions)
        parts = rng.choices(kinds, weights=(4, 1, 2, 3, 1))[0](name, rng)
        return message(*parts)

    # Kinds of messages.

    def _build_text(self, name: str, rng: random.Random) -> list[Part]:
        return [_build_slow_text(rng)]

    def _build_reads(self, name: str, rng: random.Random) -> list[Part]:
        return [
            _build_slow_text(rng),
            *(self._call_read(name) for _ in range(rng.randint(2, 6))),
            *_maybe_build_text(rng),
        ]

    def _build_commands(self, name: str, rng: random.Random) -> list[Part]:
        commands = [self._call_bash(rng) for _ in range(rng.randint(1, 3))]
        return [*_insert_pauses(commands, rng), *_maybe_build_text(rng)]

    def _build_questions(self, name: str, rng: random.Random) -> list[Part]:
        asking = [calls("TestingPermission", {}) for _ in range(rng.randint(1, 3))]
        return [*_insert_pauses([self._call_read(name), *asking], rng), *_maybe_build_text(rng)]

    def _build_mixture(self, name: str, rng: random.Random) -> list[Part]:
        parts = [
            self._call_read(name),
            self._call_bash(rng),
            self._call_write(name),
            self._call_read(name),
            self._call_bash(rng),
        ]
        parts.append(calls("TestingPermission", {}))
        rng.shuffle(parts)
        return [_build_slow_text(rng), *_insert_pauses(parts[: rng.randint(2, 6)], rng), *_maybe_build_text(rng)]

    # Calls.

    def _call_read(self, name: str) -> Part:
        return calls("Read", {"file_path": str(self._folder / name / READABLE_FILE)})

    def _call_bash(self, rng: random.Random) -> Part:
        seconds = rng.choice((0, 0, 0.1, 0.5))
        command = f"echo token-{next(self._serial)} >> {self.marks}; sleep {seconds}"
        return calls("Bash", {"command": command}, piece_chars=rng.choice((0, 7)))

    def _call_write(self, name: str) -> Part:
        number = next(self._serial)
        path = self._folder / name / f"written-{number}"
        return calls("Write", {"file_path": str(path), "content": f"content-{number}"}, piece_chars=20)


def _build_slow_text(rng: random.Random) -> Part:
    wait = rng.choice((0, 0.005, 0.03))
    pieces = [(f"word{number} ", pause(wait)) for number in range(rng.randint(1, _MAX_PIECES))]
    return says(*(part for piece in pieces for part in piece))


def _insert_pauses(parts: list[Part], rng: random.Random) -> list[Part]:
    """Insert pauses between the parts, during which the first calls already run."""
    waits = (rng.choice((0, 0, 0.02, 0.1)) for _ in parts)
    return [each for part, wait in zip(parts, waits, strict=True) for each in (part, pause(wait))]


def _maybe_build_text(rng: random.Random) -> list[Part]:
    return [_build_slow_text(rng)] if rng.random() < 0.4 else []
