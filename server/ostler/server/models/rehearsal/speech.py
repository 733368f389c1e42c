"""All that the rehearsal model says, made from what was asked and what came of it."""

import re
from collections.abc import Sequence
from typing import Final

from ostler.server.models.rehearsal.requests import EXAMPLES

PLAN_ONLY: Final = "This is only a plan. Say the same without `plan`, and I do it."
NOTHING_TO_DO: Final = "There is nothing for me to do about that."

_NOTHING_PRINTED: Final = "(Bash completed with no output)"
_NUMBERED: Final = re.compile(r"\s*\d+\t")
_MATCH: Final = re.compile(r"(.+?):\d+:")
_SHOWN_LINES: Final = 6
_LINE_CHARS: Final = 160


def clipped(text: str, limit: int) -> str:
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit and len(text) <= limit * 4 else line[: limit - 1] + "…"


def introduction(words: str = "", hint: str = "") -> str:
    opening = f"I did not understand “{clipped(words, 80)}”. {hint}".strip() + "\n\n" if words else ""
    examples = "\n".join(f"- {example}" for example in EXAMPLES)
    return (
        f"{opening}I am `rehearsal`, a small model that is part of the daemon: no key, no network, and no "
        "intelligence. I turn plain requests into real tool calls, so that the daemon, its clients and its "
        f"permissions can be tried. For example:\n\n{examples}\n\nSeveral can be joined by `then`, `and`, `;` or new "
        "lines. For work that needs thought, choose another model."
    )


def unclear(words: str, hint: str) -> str:
    return f"I did not understand “{clipped(words, 80)}”. {hint}".strip()


def missing_tools(tools: Sequence[str], words: str) -> str:
    named = listed([f"`{tool}`" for tool in tools])
    verb, noun = ("is", "tool") if len(tools) == 1 else ("are", "tools")
    return f"I cannot do “{clipped(words, 80)}” here: the {noun} {named} {verb} not among the ones that I was given."


def cannot_ask(question: str) -> str:
    return f"I cannot ask here, because `AskUserQuestion` is not among my tools. I would have asked: {question}"


def left_out(doings: Sequence[str]) -> str:
    return f"Because of that I left out: {listed([clipped(doing, 80) for doing in doings])}."


def plan(steps: Sequence[tuple[str, bool]]) -> str:
    lines = [
        f"{at}. {clipped(words, 80)}" + (" (I do not understand this step)" if dark else "")
        for at, (words, dark) in enumerate(steps, 1)
    ]
    return "The plan:\n\n" + "\n".join(lines)


def thought(about: str) -> str:
    return f"I am to think about {clipped(about, 200)}. I have no intelligence to do it with, so I only say that I did."


def thought_told(about: str) -> str:
    return (
        f"I thought about {clipped(about, 80)}, as far as a model without intelligence can, and came to no conclusion."
    )


def waiting(seconds: float) -> str:
    return f"Waiting for {seconds:g} seconds."


def preface(doings: Sequence[str], *, again: bool) -> str:
    """What stands before calls."""
    return f"{'Once more' if again else 'Now'}: {listed(doings)}."


def listed(parts: Sequence[str]) -> str:
    parts = list(dict.fromkeys(parts))
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def told(tool: str, doing: str, result: str) -> str:
    """What came of a call that went well."""
    lines = [line for line in result.splitlines() if line.strip()]
    match tool:
        case "Read":
            return f"{doing}: {_read(lines)}"
        case "Glob":
            return f"{doing}: {_found(lines, 'path')}"
        case "Grep":
            return f"{doing}: {_matches(lines)}"
        case "Bash" if lines == [_NOTHING_PRINTED]:
            return f"{doing}: it went well and printed nothing."
        case "Bash":
            return f"{doing}: it went well and printed{_shown(lines)}"
        case _:
            return f"{doing}:{_shown(lines)}"


def failed(doing: str, result: str) -> str:
    lines = [line for line in result.splitlines() if line.strip()]
    return f"{doing}: that failed{'.' if lines else ' and said'}{_shown(lines)}"


def denied(doing: str, result: str) -> str:
    return f"{doing}: that was denied, so I stopped.{_shown([line for line in result.splitlines() if line.strip()])}"


def interrupted(doing: str) -> str:
    return f"{doing}: that was interrupted, and I do not know what came of it. I did not try it again."


def _read(lines: Sequence[str]) -> str:
    numbered = [line for line in lines if _NUMBERED.match(line)]
    if not numbered:
        return clipped(" ".join(lines[:2]), _LINE_CHARS)
    content = [_NUMBERED.sub("", line, count=1).strip() for line in numbered]
    first = next((line for line in content if line), "")
    counted = f"{len(numbered)} line{'' if len(numbered) == 1 else 's'}"
    return f"{counted}, the first is “{clipped(first, 80)}”" if first else counted


def _found(lines: Sequence[str], noun: str) -> str:
    if len(lines) == 1 and " " in lines[0] and "/" not in lines[0]:
        return clipped(lines[0], _LINE_CHARS)
    return f"{len(lines)} {noun}{'' if len(lines) == 1 else 's'}{_shown(lines)}"


def _matches(lines: Sequence[str]) -> str:
    files = {found[1] for line in lines if (found := _MATCH.match(line[:2000]))}
    if not files:
        return clipped(" ".join(lines[:2]), _LINE_CHARS) or "nothing"
    count = sum(1 for line in lines if _MATCH.match(line[:2000]))
    return (
        f"{count} matching line{'' if count == 1 else 's'} in {len(files)} "
        f"file{'' if len(files) == 1 else 's'}{_shown(lines)}"
    )


def _shown(lines: Sequence[str]) -> str:
    if not lines:
        return " nothing."
    shown = [line[:_LINE_CHARS] + ("…" if len(line) > _LINE_CHARS else "") for line in lines[:_SHOWN_LINES]]
    if len(lines) > _SHOWN_LINES:
        shown.append(f"… and {len(lines) - _SHOWN_LINES} more lines")
    # Four blanks make it a code block in Markdown, whatever the lines contain.
    return "\n\n" + "\n".join(f"    {line}" for line in shown)
