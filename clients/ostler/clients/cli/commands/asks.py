"""`asks`, `answer`: what agents want to know, and the answer from any terminal."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.output import (
    Colour,
    Format,
    colourize,
    format_facts,
    is_terminal,
    note,
    sanitize,
    say,
    say_json,
)
from ostler.clients.cli.render.ask_line import describe_folder, describe_subject, fetch_folders
from ostler.clients.cli.tool_input import parse_json_object
from ostler.clients.sdk.errors import ClientError
from ostler.protocol.errors import AskResolved

if TYPE_CHECKING:
    from ostler.clients import Ostler

ScopeName = Literal["session", "local", "project", "user"]

CHOICE_OPTIONS: Final[dict[str, frozenset[str]]] = {
    "allow": frozenset({"input"}),
    "allow_always": frozenset({"rule", "scope"}),
    "deny": frozenset({"message", "interrupt"}),
    "deny_always": frozenset({"rule", "scope", "message", "interrupt"}),
    "answer": frozenset({"input"}),
    "decline": frozenset({"message"}),
    "approve": frozenset({"message", "mode"}),
    "reject": frozenset({"message"}),
    "accept": frozenset({"input"}),
    "cancel": frozenset(),
    "trust": frozenset(),
    "restrict": frozenset(),
}
_TAKE_WORDS: Final = frozenset({"deny", "deny_always", "decline", "reject"})
"""Choices after which words for the model may follow."""
_ANSWER_FIELDS: Final = {("answer", "input"): "answers", ("accept", "input"): "content", ("approve", "message"): "plan"}


def add_to(app: typer.Typer) -> None:
    for command in (asks, answer):
        app.command()(command)


def asks(
    context: typer.Context,
    ask_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Show this one whole: its id, or the start or end of it.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Only those of this session and its agents.")
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="Those that are settled too.")] = False,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """List what is asked, oldest first, or show one ask whole."""
    if ask_id is not None:
        wanted = ask_id

        async def find(ostler: "Ostler") -> tuple[dict[str, Any], dict[str, str]]:
            one = await _find_ask(ostler, wanted)
            return one, await fetch_folders(ostler, [one])

        _show_ask(*run_with_daemon(context, find), format)
        return

    async def ask(ostler: "Ostler") -> tuple[list[dict[str, Any]], dict[str, str]]:
        from ostler.clients.sdk.asks import list_asks

        asks = await list_asks(ostler, session, None if all else "open")
        return asks, await fetch_folders(ostler, asks) if format == "text" else {}

    found, folders = run_with_daemon(context, ask)
    if format == "json":
        say_json({"asks": found, "next": None})
        return
    for one in found:
        say(_format_line(one, folders[one["session_id"]]))
    if not found:
        note("Nothing is asked.")
    elif is_terminal() and any(one["status"] == "open" for one in found):
        note("`ostler asks ID` shows one whole, `ostler answer ID CHOICE` answers it; the end of an ID is enough.")


def _format_line(ask: dict[str, Any], folder: str) -> str:
    cells = [ask["id"], ask["status"], ask["kind"], ask["session_id"], describe_subject(ask), "|".join(ask["choices"])]
    if not is_terminal():
        return "\t".join([*cells, folder])
    ask_id, status, kind, session_id, subject, choices = cells
    elsewhere = f"  in {sanitize(shown)}" if (shown := describe_folder(folder)) else ""
    status = colourize(f"{status:<9}", "yellow" if status == "open" else "dim")
    return f"{ask_id}  {status}  {kind:<11}  {session_id}  {subject}  {colourize(choices + elsewhere, 'dim')}"


def _show_ask(ask: dict[str, Any], folders: dict[str, str], format: Format) -> None:
    if format == "json":
        say_json(ask)
        return
    from ostler.clients.cli.render.ask import describe_choices, render_body, render_head, render_reasons
    from ostler.protocol.shapes import Ask

    known = Ask.model_validate(ask)
    settled = (ask.get("answer") or {}).get("choice")
    folder = folders[known.session_id]
    facts = [("ask", known.id), ("session", known.session_id), ("folder", folder), ("status", known.status)]
    say(format_facts([*facts, ("answer", settled)]))
    for text, colour in (render_head(known), *render_body(known), *render_reasons(known)):
        _say_line(text, colour)
    if known.status == "open":
        note(f"Answer with `ostler answer {known.id} {describe_choices(known)}`.")


def _say_line(text: str, colour: Colour | None) -> None:
    """A pipe gets what there is; a terminal must not be steered by it."""
    shown = sanitize(text) if is_terminal() else text
    say(colourize(shown, colour) if colour else shown)


def answer(
    context: typer.Context,
    ask_id: Annotated[str, typer.Argument(metavar="ID", help="The ask: its id, or the start or end of it.")],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="ANSWER...",
            help=f"One of the ask's choices ({', '.join(CHOICE_OPTIONS)}), with words after a no. For a question the "
            "number or label of an option, or your own words; for several, QUESTION=ANSWER each.",
        ),
    ],
    message: Annotated[
        str | None, typer.Option("--message", metavar="TEXT", help="Words for the model; for a plan, the changed plan.")
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="RULE", help="What to remember; else the ask's first suggestion.")
    ] = None,
    scope: Annotated[ScopeName | None, typer.Option("--scope", help="How far the rule reaches.")] = None,
    input: Annotated[
        str | None,
        typer.Option("--input", metavar="JSON", help="A changed input, the answers by question, or what is asked for."),
    ] = None,
    mode: Annotated[str | None, typer.Option("--mode", metavar="MODE", help="The mode for an approved plan.")] = None,
    interrupt: Annotated[
        bool | None,
        typer.Option("--interrupt/--no-interrupt", help="Whether a denial ends the turn; else only without words."),
    ] = None,
) -> None:
    """Answer an ask; the first answer wins."""
    changed = parse_json_object(input) if input is not None else None
    options = {"message": message, "rule": rule, "scope": scope, "input": changed, "interrupt": interrupt}
    options["mode"] = mode
    given = {name: value for name, value in options.items() if value is not None}
    if words[0] in CHOICE_OPTIONS:
        _check_options(words[0], given)

    async def resolve(ostler: "Ostler") -> tuple[dict[str, Any], dict[str, Any]]:
        found = await _find_ask(ostler, ask_id)
        payload = _build_answer(found, words, given)
        try:
            await ostler.request("ask/resolve", {"ask_id": found["id"], "answer": payload})
        except AskResolved as late:
            raise ClientError(await _describe_outcome(ostler, late.data["ask"])) from late
        return found, payload

    ask, payload = run_with_daemon(context, resolve)
    say(f"Answered {ask['id']}: {payload['choice']}")
    _tell_subject(ask, changed if payload["choice"] == "allow" else None)
    for question, answers in (payload.get("answers") or {}).items():
        # Which option a number stood for is seen now, and not by the model first.
        note(sanitize(f"  {question} {', '.join(map(str, answers))}"))


def _tell_subject(ask: dict[str, Any], changed: dict[str, Any] | None) -> None:
    """What it was about, as it was answered: whoever gave the end of an id sees whether it was the right one."""
    from ostler.clients.cli.render.ask import render_body
    from ostler.protocol.shapes import Ask

    if ask.get("call") and changed is not None:
        ask = {**ask, "call": {**ask["call"], "input": changed}, "diff": None}
    name = ask["call"]["tool"] if ask.get("call") else ask.get("message") or ask["kind"]
    note(f"  {sanitize(name)}")
    for text, _ in render_body(Ask.model_validate(ask)):
        note(sanitize(text) if is_terminal(sys.stderr) else text)


def _build_answer(ask: dict[str, Any], words: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """The answer that words and options give to this ask."""
    choice, *rest = words
    if ask["kind"] == "question" and not _is_bare_choice(ask, words):
        choice, rest, given = "answer", [], {**given, "input": _parse_answers(ask, words)}
    if choice not in CHOICE_OPTIONS:
        raise typer.BadParameter(f"{choice!r} is no answer to this: {', '.join(ask['choices'])}")
    if rest and (choice not in _TAKE_WORDS or "message" in given):
        raise typer.BadParameter(f"{' '.join(rest)!r}: nothing more may follow {choice}")
    if rest:
        given = {**given, "message": " ".join(rest)}
    _check_options(choice, given)
    if choice == "answer" and isinstance(given.get("input"), QuestionAnswers):
        return {"choice": choice, "answers": given["input"].answers, "notes": given["input"].notes}
    return {"choice": choice, **{_ANSWER_FIELDS.get((choice, name), name): value for name, value in given.items()}}


def _check_options(choice: str, given: dict[str, Any]) -> None:
    strange = sorted(given.keys() - CHOICE_OPTIONS[choice])
    if strange:
        raise typer.BadParameter(f"{', '.join(f'--{name}' for name in strange)}: not together with {choice}")


def _is_bare_choice(ask: dict[str, Any], words: list[str]) -> bool:
    """Whether the first word is a choice, and not what an option of the question says."""
    labels = [str(option.get("label")) for one in ask.get("questions") or [] for option in one.get("options") or []]
    if words[0] in labels:
        return False
    return words[0] == "decline" or words == ["answer"]


@dataclass(frozen=True, slots=True)
class QuestionAnswers:
    """Answers to the questions of one ask."""

    answers: dict[str, list[str]]
    notes: dict[str, str]


def _parse_answers(ask: dict[str, Any], words: list[str]) -> QuestionAnswers:
    from ostler.clients.cli.question_answers import BadAnswer, find_question, parse_question_answer

    questions = ask.get("questions") or []
    pairs: list[tuple[dict[str, Any], str]] = []
    for word in words:
        name, equals, line = word.partition("=")
        question = find_question(questions, name) if equals else None
        if question is not None:
            pairs.append((question, line))
    if len(pairs) < len(words):
        if len(questions) != 1:
            names = ", ".join(f"{at}={one['question']!r}" for at, one in enumerate(questions, start=1))
            raise typer.BadParameter(f"say QUESTION=ANSWER for each, where QUESTION may be its number: {names}")
        pairs = [(questions[0], " ".join(words))]
    answers, notes = dict[str, list[str]](), dict[str, str]()
    for question, line in pairs:
        try:
            answer = parse_question_answer(question, line)
        except BadAnswer as wrong:
            raise typer.BadParameter(f"{question['question']} {wrong}") from wrong
        answers[question["question"]] = answer.chosen
        if answer.note:
            notes[question["question"]] = answer.note
    return QuestionAnswers(answers, notes)


async def _find_ask(ostler: "Ostler", given: str) -> dict[str, Any]:
    """The ask whose id begins or ends so: an open one, or else one that is settled."""
    from ostler.clients.sdk.asks import list_asks

    for status in ("open", None):
        asks = {one["id"]: one for one in await list_asks(ostler, None, status)}
        fits = [one for one in asks if one.startswith(given) or one.endswith(given)]
        if given in asks or len(fits) == 1:
            return asks[given if given in asks else fits[0]]
        if fits:
            raise ClientError(f"{given!r} could be any of {', '.join(fits[:5])}. Give more of it.")
    raise ClientError(f"There is no ask {given!r}. `ostler asks` lists what is open.")


async def _describe_outcome(ostler: "Ostler", ask: dict[str, Any]) -> str:
    if ask["status"] != "resolved":
        return f"Too late: the ask {ask['id']} is {ask['status']}."
    from ostler.clients.cli.render.ask import name_answerer

    who = name_answerer(ostler, ask.get("answered_by"), ask.get("answered_by_name"))
    return f"Too late: {who} answered {ask['id']} with {(ask.get('answer') or {}).get('choice', 'something')}."
