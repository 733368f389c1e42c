"""Checks of histories and of the log: each input is there once, each call has one result, no command ran twice."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.faults.call_ledger import ExpectedSession
from tests.faults.caller import Caller
from tests.faults.rows import Findings
from tests.support.daemon import Daemon

OUTCOME_UNKNOWN: Final = "interrupted, outcome unknown"
_NOT_RUN_PHRASES: Final = ("before it started", "said no", "Cancelled before anybody answered", "was denied")
_INPUT_PATTERN: Final = re.compile(r"say [\w.]+;")
_TOKEN_PATTERN: Final = re.compile(r"token-\d+")

Json = dict[str, Any]


def fetch_messages(caller: Caller, session_id: str) -> list[Json]:
    messages: list[Json] = []
    page: str | None = None
    while True:
        answer = caller.call("session/messages", session_id=session_id, page=page)
        messages += answer["messages"]
        page = answer["next"]
        if page is None:
            return messages


def check_acknowledged(caller: Caller, expected: ExpectedSession, findings: Findings) -> None:
    """What holds for a session at any time: its acknowledged turns and the answers to its asks are stored."""
    session = caller.call("session/get", session_id=expected.id)  # waits until it is recovered
    turns = {turn["id"] for turn in caller.call("turn/list", session_id=expected.id, limit=500)["turns"]}
    findings.expect(
        turns >= set(expected.turn_ids), f"{expected.name}: turns were lost: {set(expected.turn_ids) - turns}"
    )
    for ask_id, choice in expected.answers.items():
        ask = caller.call("ask/get", ask_id=ask_id)
        right = ask["status"] == "resolved" and ask["answer"]["choice"] == choice
        findings.expect(
            right, f"{expected.name}: {ask_id} was answered {choice}, and is {ask['status']} {ask['answer']}"
        )
    check_pairs(fetch_messages(caller, expected.id), expected.name, findings, running=session["turn"] is not None)


def check_pairs(messages: list[Json], name: str, findings: Findings, *, running: bool) -> None:
    """Each tool_use has exactly one result, in the next message, in order."""
    for at, message in enumerate(messages):
        following = messages[at + 1]["content"] if at + 1 < len(messages) else []
        if message["role"] == "assistant" and (at + 1 < len(messages) or not running):
            uses = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            results = [block["tool_use_id"] for block in following if block["type"] == "tool_result"]
            findings.expect(uses == results, f"{name}: {message['id']} calls {uses}, and is given {results}")
        elif message["role"] == "user" and following and messages[at + 1]["role"] == "user":
            stray = [block for block in following if block["type"] == "tool_result"]
            findings.expect(not stray, f"{name}: results without calls: {stray}")


def check_inputs(messages: list[Json], expected: ExpectedSession, findings: Findings) -> None:
    """At the end: every acknowledged input is in the history once."""
    texts = (
        block["text"]
        for message in messages
        if message["role"] == "user"
        for block in message["content"]
        if block["type"] == "text"
    )
    found = Counter(words for block_text in texts for words in _INPUT_PATTERN.findall(block_text))
    acknowledged = {_INPUT_PATTERN.findall(words)[0] for words in expected.inputs}
    uncertain = {_INPUT_PATTERN.findall(words)[0] for words in expected.uncertain_inputs}
    for words in acknowledged:
        findings.expect(
            found[words] == 1, f"{expected.name}: {words!r} was acknowledged, and is there {found[words]} times"
        )
    for words in found.keys() - acknowledged:
        findings.expect(
            words in uncertain and found[words] == 1, f"{expected.name}: {words!r} is there {found[words]} times"
        )


def check_effects(messages: list[Json], name: str, marks: Counter[str], findings: Findings) -> set[str]:
    """What the results report was really done; returns the tokens of the commands in the history."""
    results = {block["tool_use_id"]: block for block in _iterate_blocks(messages, "tool_result")}
    tokens: set[str] = set()
    for use in _iterate_blocks(messages, "tool_use"):
        result = results.get(use["id"])
        if result is None:
            continue  # check_pairs has reported it already
        text = get_text(result)
        if use["name"] == "Bash":
            token = _TOKEN_PATTERN.findall(use["input"]["command"])[0]
            tokens.add(token)
            _check_command(name, token, marks[token], result, findings)
        elif use["name"] == "Write" and not result.get("is_error"):
            path = Path(use["input"]["file_path"])
            right = path.exists() and path.read_text() == use["input"]["content"]
            findings.expect(right, f"{name}: {path.name} was written, says {text!r}, and is not there")
    return tokens


def _check_command(name: str, token: str, runs: int, result: Json, findings: Findings) -> None:
    text = get_text(result)
    if not result.get("is_error"):
        findings.expect(runs == 1, f"{name}: {token} has completed, and ran {runs} times")
    elif any(words in text for words in _NOT_RUN_PHRASES):
        findings.expect(runs == 0, f"{name}: {token} ran {runs} times, and its result says {text!r}")


def get_text(result: Json) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _iterate_blocks(messages: list[Json], kind: str) -> Iterator[Json]:
    return (block for message in messages for block in message["content"] if block["type"] == kind)


def read_whole_log(daemon: Daemon) -> list[Json]:
    """Every stored event."""
    events: list[Json] = []
    with Caller(daemon) as caller:
        head = int(caller.call("server/stats")["cursor"])
    with daemon.follow("?after=0") as stream:
        for event in stream.read_events():
            if event["cursor"] is not None:
                events.append(event)
                if event["cursor"] >= head:
                    break
    return events


def check_log(log: list[Json], findings: Findings) -> None:
    """Everything that began in the log ended in it, once."""
    seen = {kind: Counter(_get_subject_id(event) for event in log if event["type"] == kind) for kind in _EVENT_TYPES}
    ends = seen["message.completed"] + seen["message.aborted"]
    pairs = (
        ("turn.ended", seen["turn.started"], seen["turn.ended"]),
        ("tool.completed", seen["tool.queued"], seen["tool.completed"]),
        ("end of a message", seen["message.started"], ends),
        ("ask.resolved", seen["ask.opened"], seen["ask.resolved"]),
    )
    for what, began, ended in pairs:
        wrong = {each: ended[each] for each in began if ended[each] != 1}
        findings.expect(not wrong, f"{what} is told so often: {wrong}")
    twice = [each for each, count in seen["tool.started"].items() if count > 1]
    findings.expect(not twice, f"calls that started twice: {twice}")


_EVENT_TYPES: Final = (
    *("turn.started", "turn.ended", "tool.queued", "tool.started", "tool.completed"),
    *("message.started", "message.completed", "message.aborted", "ask.opened", "ask.resolved"),
)
_SUBJECT_KEYS: Final = {
    "turn": ("turn", "id"),
    "tool": ("call", "call_id"),
    "message": ("message", "id"),
    "ask": ("ask", "id"),
}


def _get_subject_id(event: Json) -> str:
    thing, identity = _SUBJECT_KEYS[event["type"].partition(".")[0]]
    return str(event["data"][thing][identity])
