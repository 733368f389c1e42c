"""What can go wrong on this side of the wire; what the daemon answers is in `ostler.protocol.errors`.

ClientError
├── DaemonUnreachable       nobody answers, or the connection broke
│   ├── DaemonNotRunning    there is no daemon for this home
│   └── StartFailed         one was started, and did not come up
├── AccessRefused           401 or 403: the token or the host is wrong
└── UnexpectedAnswer        an answer that this protocol does not have
"""


class ClientError(Exception):
    """A failure that is not the daemon's answer; its text says what is wrong and what to do."""


class DaemonUnreachable(ClientError):
    """Nobody answers at the daemon's address, or the connection to it broke."""


class DaemonNotRunning(DaemonUnreachable):
    """There is no daemon for this home."""


class StartFailed(DaemonUnreachable):
    """The daemon was started and did not come up; `log` has its last lines."""

    def __init__(self, message: str, log: list[str]) -> None:
        super().__init__(message)
        self.log = log


class AccessRefused(ClientError):
    """The daemon does not accept this token, or this way of reaching it."""


class UnexpectedAnswer(ClientError):
    """Whoever answered does not speak this protocol."""
