"""The classifier of the model `rehearsal`: a short, deterministic table in the place of a model."""

import time
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.server.classifier.risk import find_high_risk
from ostler.server.classifier.tables import load_table
from ostler.server.classifier.types import Behavior, Opinion, Question
from ostler.server.models.registry import REHEARSAL
from ostler.server.observability import logs
from ostler.tools import commands
from ostler.tools.commands import parse_command
from ostler.tools.threads import read_in_thread

_WORD: Final = compile_later(r"\w+")
_REASON_PREFIX: Final = "The stand-in of `rehearsal`, a table and no model, says:"


class RehearsalClassifier:
    """Needs no model and no network."""

    async def classify(self, question: Question) -> Opinion:
        """What the table says of a call. See `Classifier`."""
        began = time.monotonic()
        try:
            behavior, reason = await read_in_thread(_look_up, question)
        except Exception as error:  # noqa: BLE001 - a boundary: whatever keeps it from judging, a person decides
            logs.log.warning("classifier_failed", model=REHEARSAL, tool=question.tool, exc_info=error)
            behavior, reason = "ask", "it could not be looked up"
        took = int((time.monotonic() - began) * 1000)
        return Opinion(behavior, f"{_REASON_PREFIX} {reason}.", REHEARSAL, duration_ms=took)


def _look_up(question: Question) -> tuple[Behavior, str]:
    is_command = question.tool in load_table("risk.toml")["command_tools"]
    if is_command and (wrong := _find_denial(question.text)) is not None:
        return "deny", wrong
    risk = find_high_risk(question)
    if risk is not None:
        return "ask", f"high risk, {risk}"
    if question.granted:
        return _find_grant(question)
    if question.read_only:
        return "allow", "it only reads"
    if is_command and _is_plain_work(question.text):
        return "allow", "it is a plain build, test or listing"
    return "ask", "it is not in the table"


def _find_grant(question: Question) -> tuple[Behavior, str]:
    """Whether the command is in a row of the table whose word stands in what was approved."""
    reading = parse_command(question.text)
    for prompt in question.granted:
        words = set(_WORD.findall(prompt.casefold()))
        for row in load_table("rehearsal.toml")["grants"]:
            fits = not words.isdisjoint(row["words"]) and reading.plain
            if fits and not commands.find_uncovered(reading, row["commands"], commands.part_is_read_only):
                return "allow", f"it is meant by {prompt!r}"
    return "ask", "none of what was approved means it"


def _find_denial(command: str) -> str | None:
    # Imported here, so that the daemon starts faster.
    from ostler.server.classifier.command_risk import runs_download  # noqa: PLC0415

    reading = parse_command(command)
    if runs_download([inner for part in reading.parts for inner in commands.unwrap(part)]):
        return "it runs what it downloads"
    found = commands.find_forbidding_rule(reading, load_table("rehearsal.toml")["deny"])
    return f"nobody wants {found.removesuffix(':*')!r}" if found is not None else None


def _is_plain_work(command: str) -> bool:
    reading = parse_command(command)
    allowed = load_table("rehearsal.toml")["allow"]
    return reading.plain and not commands.find_uncovered(reading, allowed, commands.part_is_read_only)
