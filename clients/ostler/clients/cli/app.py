"""The command line as a whole: its options, its commands, and how it ends."""

import errno
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Final, TextIO

import typer

from ostler.clients.cli import errors, exit_codes
from ostler.clients.cli.commands import (
    agents,
    asks,
    chat,
    diff,
    hooks,
    mcp,
    rules,
    run,
    sessions,
    skills,
    tasks,
    todos,
    tools,
    trust,
)
from ostler.clients.cli.commands.context import memory, prompt, window
from ostler.clients.cli.commands.installation import completion, config, daemon, doctor, schema
from ostler.clients.cli.commands.providers import auth, models
from ostler.clients.cli.context import CliContext, get_own_version
from ostler.clients.cli.help import CommandGroup
from ostler.clients.cli.output import complain, is_terminal, note, say
from ostler.clients.sdk.errors import ClientError, StartFailed
from ostler.protocol.errors import ProtocolError

_WRITE_ERRNOS: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

app = CommandGroup(
    name="ostler",
    help="A daemon that owns coding-agent sessions, and lets any number of clients drive and watch them.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (
    daemon,
    doctor,
    chat,
    run,
    sessions,
    diff,
    asks,
    tasks,
    agents,
    todos,
    window,
    prompt,
    memory,
    tools,
    skills,
    mcp,
    rules,
    trust,
    hooks,
    models,
    auth,
    config,
    schema,
    completion,
):
    group.add_to(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"ostler {get_own_version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def ostler(
    context: typer.Context,
    home: Annotated[
        str | None,
        typer.Option("--home", metavar="DIR", help="The folder that holds everything. [env: OSTLER_HOME]"),
    ] = None,
    no_start: Annotated[
        bool,
        typer.Option("--no-start", envvar="OSTLER_NO_START", help="Never start a daemon where none runs."),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    context.obj = CliContext(home, start=not no_start)
    if context.invoked_subcommand is not None:
        return
    if is_terminal(sys.stdin) and is_terminal():
        chat.chat(context)
    else:
        say(context.get_help())


def main() -> None:
    """Run the command; whatever goes wrong is one line that says what, and what to do."""
    code = _run()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _discard_stream(stream)  # the interpreter would try again at its end, and make another exit code of it
    gc.freeze()  # the interpreter would look through everything once more
    sys.exit(code)


def _run() -> int:
    try:
        return _run_app()
    except BrokenPipeError:
        return _handle_broken_pipe()
    except OSError as error:  # also where it could not be said what went wrong
        return _handle_write_error(error)


def _run_app() -> int:
    try:
        completion.prepare(app)
        code = app(prog_name="ostler", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return 130
    except typer.Abort:
        return 1
    except typer.TyperException as wrong:
        message = _end_sentence(wrong.format_message())
        if _get_command_name(wrong) == "run":
            message += run.describe_missing_words(message)
            run.say_wrong_usage(sys.argv, message)
        complain(f"{message} {_format_help_hint(wrong)}")
        return wrong.exit_code
    except ProtocolError as error:
        complain(errors.describe_error(error))
        return errors.choose_exit_code(error)
    except StartFailed as error:
        for line in error.log:
            note(f"  {line}")
        complain(str(error))
    except ClientError as error:
        complain(str(error))
    except OSError:
        raise
    except Exception as bug:  # a person gets a line to report, not a traceback
        if refused := _describe_refused_params(bug):
            complain(_end_sentence(refused))
            return exit_codes.USAGE
        if os.environ.get("OSTLER_DEBUG"):
            raise
        complain(f"This is a bug of ours: {bug!r}. OSTLER_DEBUG=1 shows where it happened.")
    return exit_codes.FAILED


def _describe_refused_params(error: Exception) -> str | None:
    """What is wrong with parameters that our own models refuse to send; None for every other error."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError) and _is_params_type(error.title):
        return errors.describe_invalid_fields(error)
    return None


def _is_params_type(title: str) -> bool:
    """Whether this is the name of a params model: only what a person typed goes into those."""
    from ostler.protocol.wire import Params

    return any(kind.__name__ == title for kind in _list_subclasses(Params))


def _list_subclasses(base: type[object]) -> Iterator[type[object]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _list_subclasses(kind)


def _end_sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _get_command_name(wrong: typer.TyperException) -> str | None:
    where = getattr(wrong, "ctx", None)
    return where.info_name if where else None


def _format_help_hint(wrong: typer.TyperException) -> str:
    where = getattr(wrong, "ctx", None)
    return f"See `{where.command_path if where else 'ostler'} --help`."


def _handle_broken_pipe() -> int:
    """The pipe is closed: whoever read our output has enough."""
    _discard_stream(sys.stdout)
    return 1


def _handle_write_error(error: OSError) -> int:
    full = error.errno in _WRITE_ERRNOS and error.filename is None
    with suppress(OSError):
        sys.stdout.flush()
    _discard_stream(sys.stdout)
    with suppress(OSError):  # a terminal that is closed takes no complaints
        complain(f"The output could not be written: {error.strerror}." if full else _describe_file_error(error))
    return 1


def _describe_file_error(error: OSError) -> str:
    return f"{error.filename!r} cannot be used: {error.strerror}." if error.filename else str(error)


def _discard_stream(stream: TextIO) -> None:
    """Point a stream at /dev/null: nobody must try to flush the rest of it, not even the interpreter at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
