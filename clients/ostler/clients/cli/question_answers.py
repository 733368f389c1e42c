"""What a typed line means as the answer to a question: numbers or labels of options, or the person's own words."""

import re
from dataclasses import dataclass
from typing import Any, Final

_NUMBERS: Final = re.compile(r"\s*(\d+(?:\s*,\s*\d+)*)\s*(?::\s*(\S.*))?", re.DOTALL)


class BadAnswer(ValueError):
    """The line is no answer to the question; the message says why."""


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """The answer to one question."""

    chosen: list[str]
    """Labels, or the person's own words."""
    note: str | None = None


def parse_question_answer(question: dict[str, Any], line: str) -> QuestionAnswer:
    """The answer that a line gives: `2`, `1, 3`, `2: but only today`, a label, or own words."""
    labels = [str(option.get("label", "")) for option in question.get("options") or []]
    found = _NUMBERS.fullmatch(line)
    numbers = [int(part) for part in found[1].split(",")] if found else []
    if found and all(0 < number <= len(labels) for number in numbers):
        chosen = QuestionAnswer([labels[number - 1] for number in dict.fromkeys(numbers)], found[2])
    else:
        chosen = QuestionAnswer(_find_labels(labels, line, several=bool(question.get("multiSelect"))))
    if len(chosen.chosen) > 1 and not question.get("multiSelect"):
        raise BadAnswer("Only one of them can be chosen.")
    if not any(chosen.chosen):
        raise BadAnswer("The answer is blank.")
    return chosen


def find_question(questions: list[dict[str, Any]], given: str) -> dict[str, Any] | None:
    """The question that is meant: its number, its header, or its text or the one beginning of it."""
    wanted = given.strip().casefold()
    if wanted.isdecimal() and 0 < int(wanted) <= len(questions):
        return questions[int(wanted) - 1]
    for name in ("question", "header"):
        for question in questions:
            if str(question.get(name) or "").casefold() == wanted:
                return question
    begun = [each for each in questions if wanted and str(each["question"]).casefold().startswith(wanted)]
    return begun[0] if len(begun) == 1 else None


def _find_labels(labels: list[str], line: str, *, several: bool) -> list[str]:
    """The labels as they are written, where these were typed; else what was typed."""
    by_name = {label.casefold(): label for label in labels}
    if (label := by_name.get(line.strip().casefold())) is not None:
        return [label]
    parts = [by_name.get(part.strip().casefold()) for part in line.split(",")] if several else [None]
    named = [part for part in parts if part is not None]
    return list(dict.fromkeys(named)) if len(named) == len(parts) else [line.strip()]
