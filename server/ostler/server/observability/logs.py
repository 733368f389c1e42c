"""The daemon's own log (structlog): constant event words, facts as fields, and never a secret."""

import asyncio
import logging
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

# structlog looks for rich, to draw tracebacks that a daemon never draws, and would spend a tenth of our start-up
# on it. A name that is None in sys.modules counts as not installed.
_hides_rich = "rich" not in sys.modules
if _hides_rich:
    sys.modules["rich"] = None  # type: ignore[assignment]
import structlog  # noqa: E402

if _hides_rich:
    del sys.modules["rich"]

log: Any = structlog.get_logger()
"""The daemon's logger; from here, so that structlog is always imported as above."""

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_SECRET_WORDS: Final = ("token", "authorization", "api_key", "apikey", "secret", "password", "cookie")


class LogFile:
    """A log file that is rotated when it is full, so that a daemon that runs for a year fills no disk."""

    def __init__(self, path: Path, max_bytes: int, keep: int = 2) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._file = self._open()

    def write(self, line: bytes) -> int:
        if self._file.tell() + len(line) > self._max_bytes:
            self._rotate()
        return self._file.write(line)

    def flush(self) -> None:
        self._file.flush()

    def _open(self) -> BinaryIO:
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        file = os.fdopen(handle, "ab", buffering=0)
        file.seek(0, os.SEEK_END)
        return file

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._keep, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number - 1}")
            if newer.exists():
                newer.replace(older)
        self._file = self._open()


class SafeLogger:
    """A logger that ignores write errors: a full disk must not take the daemon down."""

    def __init__(self, sink: BinaryIO | LogFile) -> None:
        self._sink = sink

    def msg(self, message: bytes) -> None:
        try:
            self._sink.write(message + b"\n")
            self._sink.flush()
        except (OSError, ValueError):
            return

    log = debug = info = warn = warning = error = critical = exception = fatal = failure = msg


def set_up_logs(*, level: str, as_json: bool, file: LogFile | None) -> None:
    sink: BinaryIO | LogFile = file or sys.stderr.buffer
    logger = SafeLogger(sink)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact_secrets,
            _as_json if as_json else _as_text,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda *_: logger,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_StdlibHandler()], force=True)


def redact_secrets(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in event:
        if any(word in name.lower() for word in _SECRET_WORDS):
            event[name] = "removed"
    return event


def _as_json(logger: Any, method: str, event: MutableMapping[str, Any]) -> bytes:
    return orjson.dumps(event, default=str)


def _as_text(logger: Any, method: str, event: MutableMapping[str, Any]) -> bytes:
    head = f"{event.pop('timestamp')} {event.pop('level'):<7} {event.pop('event')}"
    trace = event.pop("exception", None)
    facts = "".join(f" {name}={_format_fact(value)}" for name, value in event.items())
    # Surrogates from a file name must not break the log line that is about them.
    return (head + facts + (f"\n{trace}" if trace else "")).encode("utf-8", "backslashreplace")


def _format_fact(value: Any) -> str:
    text = str(value)
    return repr(text) if not text or any(char.isspace() or char == '"' for char in text) else text


class _StdlibHandler(logging.Handler):
    """Forwards what libraries log through the standard `logging` to our log."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return  # uvicorn reports each connection that it cuts off when the daemon stops as if it had failed
        level = "error" if record.levelno >= logging.ERROR else "warning"
        getattr(log, level)("library_said", library=record.name, said=record.getMessage(), exc_info=record.exc_info)
