"""`run`: one turn without a person in front of it, for scripts and CI."""

import json
import math
import os
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.errors import describe_error, describe_invalid_fields
from ostler.clients.cli.exit_codes import Outcome
from ostler.clients.cli.output import complain, note
from ostler.clients.sdk.errors import ClientError, DaemonUnreachable, StartFailed
from ostler.protocol.errors import ProtocolError
from ostler.protocol.limits import MAX_DEPTH

if TYPE_CHECKING:
    from ostler.clients import Ostler, TurnEvent
    from ostler.clients.cli.headless.runner import RunOptions
    from ostler.clients.sdk.turn import TurnSettings
    from ostler.protocol.session import Session

RunFormat = Literal["text", "json", "stream-json"]
# As in ostler.protocol.session, which would load pydantic for every `--help`.
ModeName = Literal["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"]


_EXIT_CODES: Final = """
Exit code, the first that fits:

\b
130  interrupted
124  took too long
7    needs a sandbox that is not there
1    failed
3    as many requests as it may
4    used up its budget
6    no answer that fits the schema
5    refused something, or not answered
2    asked for in a wrong way
0    completed
"""


def add_to(app: typer.Typer) -> None:
    app.command(epilog=_EXIT_CODES)(run)


def run(
    context: typer.Context,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What the agent shall do; - reads it from stdin.")],
    cwd: Annotated[str | None, typer.Option("--cwd", metavar="DIR", help="The folder to work in.")] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="M", help="The model to use.")] = None,
    mode: Annotated[
        ModeName | None, typer.Option("--mode", help="How permission is decided; else as settings say.")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="RULE", help="Calls that pass; repeatable.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", metavar="RULE", help="Calls that are refused; repeatable.")
    ] = None,
    on_ask: Annotated[
        Literal["deny", "wait"], typer.Option("--on-ask", help="Refuse what would be asked, or wait for an answer.")
    ] = "deny",
    trust: Annotated[bool, typer.Option("--trust", help="Trust what the folder brings.")] = False,
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="FILE", help="A JSON Schema that the answer has to fit.")
    ] = None,
    max_requests: Annotated[
        int | None, typer.Option("--max-requests", metavar="N", min=1, help="Requests to the model at the most.")
    ] = None,
    max_budget_usd: Annotated[
        str | None, typer.Option("--max-budget-usd", metavar="N", help="What it may cost at the most.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="S", min=0.001, help="Seconds that it may take.")
    ] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Go on in this session.")] = None,
    continue_: Annotated[bool, typer.Option("--continue", help="Go on in the newest session of the folder.")] = False,
    title: Annotated[str | None, typer.Option("--title", metavar="T", help="What to call the new session.")] = None,
    format: Annotated[RunFormat, typer.Option("--format", help="What to print on stdout.")] = "text",
) -> int:
    """Do one turn without asking anybody, and say how it ended with the exit code."""
    only_new = {"--allow": allow, "--deny": deny, "--trust": trust, "--title": title, "--cwd": cwd and session}

    def check() -> "Callable[[], RunOptions]":
        """What can be told to be wrong at once; the rest, which takes long imports, while the daemon starts."""
        _check_options(session, continue_, [option for option, given in only_new.items() if given])
        folder = _resolve_folder(cwd)
        output_schema = _load_schema(schema)
        timeout_ms = _to_milliseconds(timeout)
        words = _read_prompt(prompt)

        def build() -> "RunOptions":
            from ostler.clients.cli.headless.runner import NewestSession, RunOptions
            from ostler.protocol.ids import SessionId
            from ostler.protocol.session import Rules, SessionCreate
            from ostler.protocol.turn import TurnStart

            create = SessionCreate(
                cwd=folder,
                title=title,
                model=model,
                rules=Rules(allow=allow or [], deny=deny or []),
                trust=trust,
                on_ask="deny" if on_ask == "deny" else "ask",
            )
            # Left out where it was not given: settings say it then.
            create = create.model_copy(update={"mode": mode}) if mode else create
            settings: TurnSettings = {
                "model": model,
                "mode": mode,
                "output_schema": output_schema,
                "max_requests": max_requests,
                "max_budget_usd": _parse_usd(max_budget_usd),
                "timeout_ms": timeout_ms,
                "wait_for_agents": True,
            }
            TurnStart(
                session_id=SessionId(""), input=words, **settings
            )  # wrong ones are found out before there is a session
            where = NewestSession(folder) if continue_ else session or create
            return RunOptions(words, where, on_ask, settings, timeout)

        return build

    outcome = _run_headless(context, check, format)
    _print_outcome(outcome, format)
    return outcome.exit_code


def _check_options(session: str | None, continue_: bool, only_new: list[str]) -> None:
    if session and continue_:
        raise typer.BadParameter("give --session or --continue, not both")
    if only_new and (session or continue_):
        raise typer.BadParameter(f"{', '.join(only_new)}: only for a new session, not for one that exists")


def say_wrong_usage(arguments: list[str], message: str) -> None:
    """The result of a call that could not even be parsed, where one was asked for."""
    formats: tuple[RunFormat, ...] = ("json", "stream-json")
    for format in formats:
        if f"--format={format}" in arguments or ("--format", format) in pairwise(arguments):
            _print_result(_build_failure("usage", message), format)


def describe_missing_words(message: str) -> str:
    """What to do where no prompt was given, perhaps since it comes by a pipe."""
    return " With `-` it is read from stdin: `… | ostler run -`." if "'PROMPT'" in message else ""


def _resolve_folder(given: str | None) -> str:
    try:
        return os.path.abspath(os.path.expanduser(given or os.getcwd()))
    except FileNotFoundError:
        raise typer.BadParameter("this folder does not exist any more: give one with --cwd") from None


def _to_milliseconds(timeout: float | None) -> int | None:
    if timeout is None:
        return None
    if not math.isfinite(timeout):
        raise typer.BadParameter(f"--timeout {timeout}: it is no number of seconds")
    return max(1, int(timeout * 1000))


def _parse_usd(given: str | None) -> str | None:
    from pydantic import TypeAdapter, ValidationError

    from ostler.protocol.wire import Usd

    try:
        return given if given is None else TypeAdapter(Usd).validate_python(given)
    except ValidationError:
        raise typer.BadParameter(f"--max-budget-usd {given}: it is no amount of dollars like 0.50") from None


def _read_prompt(given: str) -> str:
    try:
        words = sys.stdin.read() if given == "-" else given
        words.encode()  # where the locale is not UTF-8, strange bytes come through as what cannot be sent
    except UnicodeError:
        raise typer.BadParameter("the prompt is not UTF-8") from None
    if not words.strip():
        raise typer.BadParameter("the prompt is empty")
    return words


def _load_schema(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as wrong:
        raise typer.BadParameter(f"--schema {path}: {wrong}") from wrong
    except RecursionError:
        raise _build_depth_error(path) from None
    if not isinstance(found, dict):
        raise typer.BadParameter(f"--schema {path}: it is not a JSON object")
    if _is_too_deep(found):
        raise _build_depth_error(path)
    return found


def _build_depth_error(path: str) -> typer.BadParameter:
    return typer.BadParameter(f"--schema {path}: it is nested deeper than {MAX_DEPTH}")


def _is_too_deep(schema: dict[str, Any]) -> bool:
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        inner = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [value for values in inner for value in values]
    return bool(level)


def _run_headless(
    context: typer.Context, check: "Callable[[], Callable[[], RunOptions]]", format: RunFormat
) -> Outcome:
    options: RunOptions

    async def work(ostler: "Ostler") -> Outcome:
        from ostler.clients.cli.headless.runner import HeadlessRunner

        return await HeadlessRunner(
            ostler, options, _choose_reporter(format, schema=bool(options.settings.get("output_schema")))
        ).run()

    try:
        build = check()

        def prepare() -> None:
            nonlocal options
            options = build()
            _import_renderer(format)

        return run_with_daemon(context, work, prepare=prepare)
    except KeyboardInterrupt:
        return _build_failure("interrupted", "It was interrupted before the turn began.")
    except typer.BadParameter as wrong:
        return _build_failure("usage", wrong.message)
    except ProtocolError as error:
        return _build_failure("refused", describe_error(error))
    except ClientError as error:
        for line in error.log if isinstance(error, StartFailed) else []:
            note(f"  {line}")
        return _build_failure("daemon_unreachable" if isinstance(error, DaemonUnreachable) else "refused", str(error))
    except Exception as error:
        # Imported here, and not before the daemon starts: it takes longer than half of that.
        from pydantic import ValidationError

        if isinstance(error, ValidationError):
            return _build_failure("usage", describe_invalid_fields(error))
        raise


def _build_failure(code: str, message: str) -> Outcome:
    return Outcome(error={"code": code, "message": message})


def _choose_reporter(format: RunFormat, *, schema: bool) -> "Callable[[Session], Callable[[TurnEvent], None]]":
    def reporter(session: "Session") -> "Callable[[TurnEvent], None]":
        if format == "text":
            from ostler.clients.cli.render.sink import StreamSink
            from ostler.clients.cli.render.turn import TurnRenderer

            # With a schema the answer is JSON, and stdout shall hold nothing else.
            return TurnRenderer(StreamSink(), session.id, words=not schema).render
        return _say_event if format == "stream-json" else _say_nothing

    return reporter


def _import_renderer(format: RunFormat) -> None:
    if format == "text":
        import ostler.clients.cli.render.turn  # noqa: F401


def _say_event(turn_event: "TurnEvent") -> None:
    print(turn_event.event.model_dump_json(), flush=True)


def _say_nothing(turn_event: "TurnEvent") -> None:
    return


def _print_outcome(outcome: Outcome, format: RunFormat) -> None:
    _print_result(outcome, format)
    if outcome.error is not None:
        complain(str(outcome.error["message"]))
    sys.stdout.flush()


def _print_result(outcome: Outcome, format: RunFormat) -> None:
    match format:
        case "json":
            print(json.dumps(outcome.as_json(), indent=2, ensure_ascii=False))
        case "stream-json":
            print(json.dumps(outcome.as_json(), ensure_ascii=False))
        case "text" if outcome.turn is not None and outcome.turn.structured_output is not None:
            print(json.dumps(outcome.turn.structured_output, indent=2, ensure_ascii=False))
        case "text":
            pass
