"""The calls of a message from before a restart, each as far as it had come."""

from anyio.abc import TaskGroup

from ostler.server.engine.calls.executor import Executor
from ostler.server.engine.loading import StoredSession
from ostler.server.engine.turn.loop import TurnRun


def restore_calls(run: TurnRun, group: TaskGroup, stored: StoredSession) -> Executor | None:
    """The calls of the last message, each as far as it had come."""
    if stored.last_message is None or not stored.last_calls:
        return None
    executor = run.new_executor(group, stored.last_message.id, lambda: ())
    for one in stored.last_calls:
        entry = executor.restore(one.use, one.call)
        entry.ask = one.ask
    executor.go_on()
    return executor
