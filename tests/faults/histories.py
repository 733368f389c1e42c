"""Whether sessions are whole: what was said is there once, what was called has one result, what ran, ran once."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.faults.caller import Caller
from tests.faults.diary import Kept
from tests.faults.rows import Findings
from tests.support.daemon import Daemon

UNKNOWN: Final = "interrupted, outcome unknown"
_NOT_RUN: Final = ("before it started", "said no", "Cancelled before anybody answered", "was denied")
_WORDS: Final = re.compile(r"say [\w.]+;")
_TOKEN: Final = re.compile(r"token-\d+")

Json = dict[str, Any]


def history(caller: Caller, session_id: str) -> list[Json]:
    found: list[Json] = []
    page: str | None = None
    while True:
        answer = caller.call("session/messages", session_id=session_id, page=page)
        found += answer["messages"]
        page = answer["next"]
        if page is None:
            return found


def check_acknowledged(caller: Caller, kept: Kept, findings: Findings) -> None:
    """What can be said of a session at any time: its turns and the answers to its asks are there."""
    session = caller.call("session/get", session_id=kept.id)  # waits until it is recovered
    turns = {turn["id"] for turn in caller.call("turn/list", session_id=kept.id, limit=500)["turns"]}
    findings.expect(turns >= set(kept.turns), f"{kept.name}: turns were lost: {set(kept.turns) - turns}")
    for ask_id, choice in kept.answers.items():
        ask = caller.call("ask/get", ask_id=ask_id)
        right = ask["status"] == "resolved" and ask["answer"]["choice"] == choice
        findings.expect(right, f"{kept.name}: {ask_id} was answered {choice}, and is {ask['status']} {ask['answer']}")
    check_pairs(history(caller, kept.id), kept.name, findings, running=session["turn"] is not None)


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


def check_words(messages: list[Json], kept: Kept, findings: Findings) -> None:
    """At the end: everything that was acknowledged is in the history once."""
    texts = (
        block["text"]
        for message in messages
        if message["role"] == "user"
        for block in message["content"]
        if block["type"] == "text"
    )
    found = Counter(words for text in texts for words in _WORDS.findall(text))
    said = {_WORDS.findall(words)[0] for words in kept.said}
    maybe = {_WORDS.findall(words)[0] for words in kept.maybe_said}
    for words in said:
        findings.expect(
            found[words] == 1, f"{kept.name}: {words!r} was acknowledged, and is there {found[words]} times"
        )
    for words in found.keys() - said:
        findings.expect(words in maybe and found[words] == 1, f"{kept.name}: {words!r} is there {found[words]} times")


def check_effects(messages: list[Json], name: str, marks: Counter[str], findings: Findings) -> set[str]:
    """What the results say has happened has happened; returns the tokens that the history speaks of."""
    results = {block["tool_use_id"]: block for block in _blocks(messages, "tool_result")}
    tokens: set[str] = set()
    for use in _blocks(messages, "tool_use"):
        result = results.get(use["id"])
        if result is None:
            continue  # told already, by check_pairs
        text = text_of(result)
        if use["name"] == "Bash":
            token = _TOKEN.findall(use["input"]["command"])[0]
            tokens.add(token)
            _check_command(name, token, marks[token], result, findings)
        elif use["name"] == "Write" and not result.get("is_error"):
            path = Path(use["input"]["file_path"])
            right = path.exists() and path.read_text() == use["input"]["content"]
            findings.expect(right, f"{name}: {path.name} was written, says {text!r}, and is not there")
    return tokens


def _check_command(name: str, token: str, runs: int, result: Json, findings: Findings) -> None:
    text = text_of(result)
    if not result.get("is_error"):
        findings.expect(runs == 1, f"{name}: {token} has completed, and ran {runs} times")
    elif any(words in text for words in _NOT_RUN):
        findings.expect(runs == 0, f"{name}: {token} ran {runs} times, and its result says {text!r}")


def text_of(result: Json) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _blocks(messages: list[Json], kind: str) -> Iterator[Json]:
    return (block for message in messages for block in message["content"] if block["type"] == kind)


def whole_log(daemon: Daemon) -> list[Json]:
    """Every stored event."""
    found: list[Json] = []
    with Caller(daemon) as caller:
        head = int(caller.call("server/stats")["cursor"])
    with daemon.follow("?after=0") as stream:
        for event in stream.events():
            if event["cursor"] is not None:
                found.append(event)
                if event["cursor"] >= head:
                    break
    return found


def check_log(log: list[Json], findings: Findings) -> None:
    """Everything that began in the log ended in it, once."""
    seen = {kind: Counter(_subject(event) for event in log if event["type"] == kind) for kind in _KINDS}
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


_KINDS: Final = (
    *("turn.started", "turn.ended", "tool.queued", "tool.started", "tool.completed"),
    *("message.started", "message.completed", "message.aborted", "ask.opened", "ask.resolved"),
)
_NAMES: Final = {
    "turn": ("turn", "id"),
    "tool": ("call", "call_id"),
    "message": ("message", "id"),
    "ask": ("ask", "id"),
}


def _subject(event: Json) -> str:
    thing, identity = _NAMES[event["type"].partition(".")[0]]
    return str(event["data"][thing][identity])
