"""The texts of the rehearsal model: all that it says, made from what was asked and what came of it."""

from collections.abc import Sequence
from typing import Final

from ostler.protocol.patterns import compile_later

PLAN_ONLY: Final = "This is only a plan. Say the same without `plan`, and I do it."
ALL_DONE: Final = "That is done."
NOTHING_TO_DO: Final = "There is nothing for me to do about that."

_NOTHING_PRINTED: Final = "(Bash completed with no output)"
_NUMBERED: Final = compile_later(r"\s*\d+\t")
_MATCH: Final = compile_later(r"(.+?):\d+:")
_SHOWN_LINES: Final = 6
_LINE_CHARS: Final = 160


def clip(text: str, limit: int) -> str:
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit and len(text) <= limit * 4 else line[: limit - 1] + "…"


def introduce(requests: Sequence[str], words: str = "", hint: str = "") -> str:
    opening = f"I did not understand “{clip(words, 80)}”. {hint}".strip() + "\n\n" if words else ""
    examples = "\n".join(f"- {request}" for request in requests)
    return (
        f"{opening}I am `rehearsal`, a small model that is part of the daemon: no key, no network, and no "
        "intelligence. I turn plain requests into real tool calls, so that the daemon, its clients and its "
        f"permissions can be tried. For example:\n\n{examples}\n\nSeveral can be joined by `then`, `and`, `;` or new "
        "lines. For work that needs thought, choose another model."
    )


def describe_unclear(words: str, hint: str) -> str:
    return f"I did not understand “{clip(words, 80)}”. {hint}".strip()


def describe_missing_tools(tools: Sequence[str], words: str) -> str:
    named = join_words([f"`{tool}`" for tool in tools])
    verb, noun = ("is", "tool") if len(tools) == 1 else ("are", "tools")
    return f"I cannot do “{clip(words, 80)}” here: the {noun} {named} {verb} not among the ones that I was given."


def describe_unasked(question: str) -> str:
    return f"I cannot ask here, because `AskUserQuestion` is not among my tools. I would have asked: {question}"


def describe_unisolated(words: str) -> str:
    return f"I cannot do “{clip(words, 80)}” here: agents do not work in worktrees of their own."


def describe_list(items: int) -> str:
    return f"The list has {items} new item{'' if items == 1 else 's'}."


def describe_left_out(descriptions: Sequence[str]) -> str:
    return f"Because of that I left out: {join_words([clip(description, 80) for description in descriptions])}."


def render_plan(steps: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Each step with what belongs below it; nothing is cut, since people approve it."""
    lines: list[str] = []
    for at, (words, below) in enumerate(steps, 1):
        lines += [f"{at}. {words}", *(f"   - {line}" for line in below)]
    return "The plan:\n\n" + "\n".join(lines)


def render_thought(about: str) -> str:
    return f"I am to think about {clip(about, 200)}. I have no intelligence to do it with, so I only say that I did."


def describe_thought(about: str) -> str:
    return f"I thought about {clip(about, 80)}, as far as a model without intelligence can, and came to no conclusion."


def describe_wait(seconds: float) -> str:
    return f"Waiting for {seconds:g} seconds."


def announce_calls(descriptions: Sequence[str], *, again: bool) -> str:
    """The sentence before calls."""
    return f"{'Once more' if again else 'Now'}: {join_words(descriptions)}."


def join_words(parts: Sequence[str]) -> str:
    parts = list(dict.fromkeys(parts))
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def describe_result(tool: str, description: str, result: str) -> str:
    """What came of a call that went well."""
    lines = [line for line in result.splitlines() if line.strip()]
    match tool:
        case "Read":
            return f"{description}: {_describe_read(lines)}"
        case "Glob":
            return f"{description}: {_describe_paths(lines, 'path')}"
        case "Grep":
            return f"{description}: {_describe_matches(lines)}"
        case "Bash" if lines == [_NOTHING_PRINTED]:
            return f"{description}: it went well and printed nothing."
        case "Bash":
            return f"{description}: it went well and printed{_format_lines(lines)}"
        case _:
            return f"{description}:{_format_lines(lines)}"


def describe_failure(description: str, result: str) -> str:
    lines = [line for line in result.splitlines() if line.strip()]
    return f"{description}: that failed{'.' if lines else ' and said'}{_format_lines(lines)}"


def describe_denial(description: str, result: str) -> str:
    lines = [line for line in result.splitlines() if line.strip()]
    return f"{description}: that was denied, so I stopped.{_format_lines(lines)}"


def describe_interruption(description: str) -> str:
    return f"{description}: that was interrupted, and I do not know what came of it. I did not try it again."


def _describe_read(lines: Sequence[str]) -> str:
    numbered = [line for line in lines if _NUMBERED.match(line)]
    if not numbered:
        return clip(" ".join(lines[:2]), _LINE_CHARS)
    content = [_NUMBERED.sub("", line, count=1).strip() for line in numbered]
    first = next((line for line in content if line), "")
    counted = f"{len(numbered)} line{'' if len(numbered) == 1 else 's'}"
    return f"{counted}, the first is “{clip(first, 80)}”" if first else counted


def _describe_paths(lines: Sequence[str], noun: str) -> str:
    if len(lines) == 1 and " " in lines[0] and "/" not in lines[0]:
        return clip(lines[0], _LINE_CHARS)
    return f"{len(lines)} {noun}{'' if len(lines) == 1 else 's'}{_format_lines(lines)}"


def _describe_matches(lines: Sequence[str]) -> str:
    files = {found[1] for line in lines if (found := _MATCH.match(line[:2000]))}
    if not files:
        return clip(" ".join(lines[:2]), _LINE_CHARS) or "nothing"
    count = sum(1 for line in lines if _MATCH.match(line[:2000]))
    return (
        f"{count} matching line{'' if count == 1 else 's'} in {len(files)} "
        f"file{'' if len(files) == 1 else 's'}{_format_lines(lines)}"
    )


def _format_lines(lines: Sequence[str]) -> str:
    if not lines:
        return " nothing."
    shown = [line[:_LINE_CHARS] + ("…" if len(line) > _LINE_CHARS else "") for line in lines[:_SHOWN_LINES]]
    if len(lines) > _SHOWN_LINES:
        shown.append(f"… and {len(lines) - _SHOWN_LINES} more lines")
    # Four blanks make it a code block in Markdown, whatever the lines contain.
    return "\n\n" + "\n".join(f"    {line}" for line in shown)
