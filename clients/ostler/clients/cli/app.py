"""The command line as a whole: its options, its commands, and how it ends."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Final, TextIO

import typer

from ostler.clients.cli import errors, exit_codes
from ostler.clients.cli.commands import (
    asks,
    chat,
    completion,
    config,
    daemon,
    diff,
    doctor,
    hooks,
    rules,
    run,
    schema,
    sessions,
    tasks,
    tools,
    trust,
)
from ostler.clients.cli.context import Setting, own_version
from ostler.clients.cli.help import Commands
from ostler.clients.cli.output import complain, is_terminal, note, say
from ostler.clients.sdk.errors import ClientError, StartFailed
from ostler.protocol.errors import ProtocolError

_UNWRITABLE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

app = Commands(
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
    tools,
    rules,
    trust,
    hooks,
    config,
    schema,
    completion,
):
    group.add_to(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"ostler {own_version()}")
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
    context.obj = Setting(home, start=not no_start)
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
            _drop(stream)  # the interpreter would try again at its end, and make another exit code of it
    sys.exit(code)


def _run() -> int:
    try:
        return _attempt()
    except BrokenPipeError:
        return _reader_left()
    except OSError as error:  # also where it could not be said what went wrong
        return _unwritten(error)


def _attempt() -> int:
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
        if _command_of(wrong) == "run":
            run.say_wrong_usage(sys.argv, wrong.format_message())
        complain(f"{_sentence(wrong.format_message())} {_help_for(wrong)}")
        return wrong.exit_code
    except ProtocolError as error:
        complain(errors.in_words(error))
        return errors.exit_code(error)
    except StartFailed as error:
        for line in error.log:
            note(f"  {line}")
        complain(str(error))
    except ClientError as error:
        complain(str(error))
    except OSError:
        raise
    except Exception as bug:  # a person gets a line to report, not a traceback
        if refused := _refused_words(bug):
            complain(_sentence(refused))
            return exit_codes.USAGE
        if os.environ.get("OSTLER_DEBUG"):
            raise
        complain(f"This is a bug of ours: {bug!r}. OSTLER_DEBUG=1 shows where it happened.")
    return exit_codes.FAILED


def _refused_words(error: Exception) -> str | None:
    """What is wrong with words that our own models do not let out."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError) and _is_of_params(error.title):
        return errors.of_fields(error)
    return None


def _is_of_params(title: str) -> bool:
    """Whether this is the name of something that is sent: what a person said goes in there, and nothing else."""
    from ostler.protocol.wire import Params

    return any(kind.__name__ == title for kind in _kinds(Params))


def _kinds(base: type[object]) -> Iterator[type[object]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _command_of(wrong: typer.TyperException) -> str | None:
    where = getattr(wrong, "ctx", None)
    return where.info_name if where else None


def _help_for(wrong: typer.TyperException) -> str:
    where = getattr(wrong, "ctx", None)
    return f"See `{where.command_path if where else 'ostler'} --help`."


def _reader_left() -> int:
    """Whoever read our output has enough."""
    _drop(sys.stdout)
    return 1


def _unwritten(error: OSError) -> int:
    full = error.errno in _UNWRITABLE and error.filename is None
    with suppress(OSError):
        sys.stdout.flush()
    _drop(sys.stdout)
    with suppress(OSError):  # a terminal that is closed takes no complaints
        complain(f"The output could not be written: {error.strerror}." if full else _of_file(error))
    return 1


def _of_file(error: OSError) -> str:
    return f"{error.filename!r} cannot be used: {error.strerror}." if error.filename else str(error)


def _drop(stream: TextIO) -> None:
    """Nobody must try to flush the rest of it, not even the interpreter at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
