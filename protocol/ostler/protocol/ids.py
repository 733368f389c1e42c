"""Ids: a prefix that tells the kind, then base-36 digits that sort by time."""

import secrets
import threading
import time
from typing import Final, NewType

SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
MessageId = NewType("MessageId", str)
CallId = NewType("CallId", str)
"""`MESSAGE_ID#INDEX`: models repeat their own tool_use ids."""
AskId = NewType("AskId", str)
ResultId = NewType("ResultId", str)
TaskId = NewType("TaskId", str)
TodoId = NewType("TodoId", str)
ClientId = NewType("ClientId", str)
ClientCallId = NewType("ClientCallId", str)
Cursor = NewType("Cursor", int)
"""A place in the daemon's one log."""

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_TIME_DIGITS: Final = 9  # milliseconds since 1970 fit until the year 5188
_RANDOM_DIGITS: Final = 11  # 56 bits: two daemons never make the same one
_RANDOM_RANGE: Final = 36**_RANDOM_DIGITS


def _format_base36(number: int, width: int) -> str:
    digits: list[str] = []
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)).rjust(width, "0")


class _Clock:
    """Milliseconds and a random tail that only grow: ids made in the same millisecond sort as they were made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = (0, 0)

    def tick(self) -> tuple[int, int]:
        now = time.time_ns() // 1_000_000
        with self._lock:
            last, tail = self._last
            # Also when the clock was put back: later ids stay later.
            self._last = (now, secrets.randbelow(_RANDOM_RANGE // 2)) if now > last else (last, tail + 1)
            return self._last


_clock = _Clock()


def _make_id(prefix: str) -> str:
    now, tail = _clock.tick()
    return prefix + _format_base36(now, _TIME_DIGITS) + _format_base36(tail, _RANDOM_DIGITS)


def new_session_id() -> SessionId:
    return SessionId(_make_id("s_"))


def new_turn_id() -> TurnId:
    return TurnId(_make_id("t_"))


def new_message_id() -> MessageId:
    return MessageId(_make_id("m_"))


def new_ask_id() -> AskId:
    return AskId(_make_id("k_"))


def new_result_id() -> ResultId:
    return ResultId(_make_id("r_"))


def first_result_id(milliseconds: int) -> ResultId:
    """Smaller than every id of a result that is made from that time on."""
    return ResultId("r_" + _format_base36(milliseconds, _TIME_DIGITS))


def new_task_id(letter: str) -> TaskId:
    """A letter for its type, and eight at random from a secure source: what a task prints is read by this name."""
    return TaskId(letter + "".join(secrets.choice(_DIGITS) for _ in range(8)))


def new_client_id() -> ClientId:
    return ClientId(_make_id("c_"))


def new_client_call_id() -> ClientCallId:
    return ClientCallId(_make_id("q_"))


def call_id(message_id: MessageId, index: int) -> CallId:
    return CallId(f"{message_id}#{index}")
