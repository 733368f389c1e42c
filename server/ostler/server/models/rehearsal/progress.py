"""How far a request has come: replayed from the messages each time, because the model remembers nothing."""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from ostler.protocol.patterns import compile_later
from ostler.server.models.rehearsal.actions import TODO_OF, Action, Call, Capabilities, plan_actions
from ostler.server.models.rehearsal.conversation import EarlierCall, ParsedMessage, Result
from ostler.server.models.rehearsal.requests import parse

CallStatus = Literal["done", "failed", "denied", "interrupted"]

_DENIED: Final = compile_later(r"\b(?:denied|denies|said no|counts as a no)\b", re.IGNORECASE)
_INTERRUPTED: Final = compile_later(r"\binterrupted\b|^stopped, because", re.IGNORECASE)
_TODO: Final = compile_later(r"Todo (\S+) added")
_UNREAD: Final = compile_later(r"\bread\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Outcome:
    call: Call
    status: CallStatus
    text: str


@dataclass(slots=True)
class Progress:
    """What has been done about an input, and what is left."""

    capabilities: Capabilities
    pending: deque[Action] = field(default_factory=deque)
    outcomes: list[Outcome] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    _running: dict[str, Call] = field(default_factory=dict)

    def add(self, words: Sequence[str]) -> None:
        """A request: the first one, or one that came while this was at work."""
        requested_steps = [requested for text in words if text.strip() for requested in parse(text)]
        self.pending.extend(plan_actions(requested_steps, self.capabilities))

    def add_reports(self, task_ids: Sequence[str]) -> None:
        """Agents in the background have ended: read what they report."""
        if "TaskOutput" in self.capabilities.tools:
            self.pending.extend(
                Call("TaskOutput", {"task_id": task_id, "block": False}, f"read the report of {task_id}")
                for task_id in task_ids
            )

    def match_call(self, used: EarlierCall) -> None:
        """Match a call that was made with the action that it was made for."""
        position = next((at for at, action in enumerate(self.pending) if isinstance(action, Call)), None)
        action = None if position is None else self.pending[position]
        # By its name alone: a person may have changed its input.
        if position is None or not isinstance(action, Call) or action.tool != used.tool:
            self._running[used.id] = Call(used.tool, used.input, f"call {used.tool}")  # another model made it
            return
        # What was to be said before it was said in the same message.
        for _ in range(position + 1):
            self.pending.popleft()
        self._running[used.id] = action

    def take_results(self, results: Sequence[Result]) -> None:
        """Take the results of one message, and drop what depended on those that went wrong."""
        retries: list[Action] = []
        statuses: set[CallStatus] = set()
        for result in results:
            call = self._running.pop(result.call_id, None)
            if call is None:
                continue
            status = _classify_result(result)
            if retry := _plan_retry(call, status, result):
                retries += retry
                continue
            self.outcomes.append(Outcome(call, status, result.text))
            statuses.add(status)
            if call.tool == "TaskCreate" and (named := _TODO.match(result.text)):
                self._name_todo(call.input.get("subject", ""), named[1])
        self._drop_dependents(statuses)
        self.pending.extendleft(reversed(retries))

    def _name_todo(self, subject: str, todo_id: str) -> None:
        """Now that a todo has an id, what is to be done with it can name it."""
        self.pending = deque(
            replace(action, input={**action.input, "taskId": todo_id})
            if isinstance(action, Call) and action.input.get("taskId") == TODO_OF + subject
            else action
            for action in self.pending
        )

    def _drop_dependents(self, statuses: set[CallStatus]) -> None:
        if not statuses - {"done"}:
            return
        # A denial is a person's word, so it ends everything; a failure ends only what depends on it.
        while self.pending and ("denied" in statuses or self.pending[0].join != "apart"):
            self.left_out.append(self.pending.popleft().description)


def replay_progress(tail: Sequence[ParsedMessage], capabilities: Capabilities) -> Progress:
    progress = Progress(capabilities)
    for message in tail:
        for used in message.calls:
            progress.match_call(used)
        progress.take_results(message.results)
        progress.add_reports(message.ended_agents)
        progress.add(message.texts)
    return progress


def _classify_result(result: Result) -> CallStatus:
    if not result.is_error:
        return "done"
    # A command may print such words, too: only a text of the daemon's own is judged by its words.
    head = result.text[:500] if result.refused else ""
    if _DENIED.search(head):
        return "denied"
    return "interrupted" if _INTERRUPTED.search(head) else "failed"


def _plan_retry(call: Call, status: CallStatus, result: Result) -> list[Action]:
    """The actions that try a failed call once more; none where that is of no use."""
    if call.again:
        return []
    once_more = replace(call, again=True)
    if call.is_read_only and status == "interrupted":
        return [once_more]
    if call.tool == "Write" and status == "failed" and _UNREAD.search(result.text[:500]):
        path = call.input["file_path"]
        return [Call("Read", {"file_path": path}, f"read {path} first", again=True), replace(once_more, join="after")]
    return []
