"""Wire shapes: an example of each, as clients get or send it, keeps every field through its model."""

from typing import Any

import pytest
from pydantic import BaseModel

from ostler.protocol.events import EVENT_TYPES, Event
from ostler.protocol.methods import SESSION_CREATE
from ostler.protocol.session import Session, SessionCreate
from ostler.protocol.shapes import Ask, Call, Message, Task, Turn

TIME = "2026-11-16T09:30:00.125Z"
SESSION_ID = "s_0mhwq3v1kabcdefghijk"
TURN_ID = "t_0mhwq3v1kabcdefghijk"
MESSAGE_ID = "m_0mhwq3v1kabcdefghijk"
ASK_ID = "k_0mhwq3v1kabcdefghijk"

USAGE = {
    "input_tokens": 1,
    "output_tokens": 1,
    "cache_read_tokens": 0,
    "cache_write_tokens": 0,
    "cost_usd": "0.0012",
}

SESSION: dict[str, Any] = {
    "id": SESSION_ID,
    "cwd": "/home/a/proj",
    "title": None,
    "model": "claude-sonnet-5",
    "provider": "anthropic",
    "mode": "default",
    "status": "idle",
    "additional_directories": [],
    "parent_id": None,
    "root_id": SESSION_ID,
    "on_ask": "ask",
    "trusted": True,
    "created_at": TIME,
    "updated_at": TIME,
    "cursor": 42,
    "turn": None,
    "message": None,
    "asks": [],
    "usage": USAGE,
    "metadata": {},
}

SESSION_CREATE_PARAMS: dict[str, Any] = {
    "cwd": "/home/a/proj",
    "title": "fix login",
    "model": "claude-sonnet-5",
    "mode": "default",
    "on_ask": "ask",
    "rules": {"allow": ["Bash(npm test:*)"], "ask": [], "deny": ["Read(secrets/**)"]},
    "trust": True,
    "thinking": None,
    "tools": "full",
    "additional_directories": [],
    "instructions": "Answer in French.",
    "env": {},
    "mcp_servers": {},
    "max_budget_usd": "5.00",
    "on_restart": "interrupt",
    "wake_on_task_end": "none",
    "metadata": {},
    "idempotency_key": "5f2c-1",
}

TURN = {
    "id": TURN_ID,
    "session_id": SESSION_ID,
    "status": "running",
    "reason": None,
    "error": None,
    "result_text": None,
    "structured_output": None,
    "model_requests": 3,
    "tool_calls": 2,
    "usage": USAGE,
    "denials": [{"tool": "Bash", "input": {"command": "npm test"}, "reason": "asks", "allow_with": "Bash(npm test)"}],
    "started_at": TIME,
    "ended_at": None,
    "cursor": 43,
}

TURN_FAILED = {
    **TURN,
    "status": "ended",
    "reason": "failed",
    "error": {"code": "model_error", "message": "The provider answered 529.", "status": 529},
    "ended_at": TIME,
}

MESSAGE = {
    "id": MESSAGE_ID,
    "session_id": SESSION_ID,
    "turn_id": TURN_ID,
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "First the tests.", "signature": "c2ln"},
        {"type": "text", "text": "I run the tests."},
        {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": "npm test"}},
        {"type": "a_kind_of_next_year", "payload": [1, 2]},
    ],
    "model": "claude-sonnet-5",
    "stop_reason": "tool_use",
    "source_call_id": None,
    "created_at": TIME,
}

RESULTS_MESSAGE = {
    **MESSAGE,
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "toolu_01", "content": [{"type": "text", "text": "ok"}]},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
    ],
    "model": None,
    "stop_reason": None,
}

CALL = {
    "call_id": f"{MESSAGE_ID}#1",
    "tool_use_id": "toolu_01",
    "parent_call_id": None,
    "session_id": SESSION_ID,
    "turn_id": TURN_ID,
    "tool": "Bash",
    "input": {"command": "npm test"},
    "summary": "npm test",
    "activity": "run",
    "interrupt": "cancel",
    "status": "completed",
    "is_error": False,
    "output": {"stdout": "ok\n", "exit_code": 0},
    "content": [{"type": "text", "text": "ok"}],
    "result_id": None,
    "decision": {"behavior": "allow", "by": "rule", "rule": "Bash(npm test:*)", "source": "project"},
    "started_at": TIME,
    "duration_ms": 812,
}

ASK_PERMISSION = {
    "id": ASK_ID,
    "session_id": SESSION_ID,
    "root_id": SESSION_ID,
    "turn_id": TURN_ID,
    "agent": None,
    "kind": "permission",
    "status": "open",
    "call": {
        "call_id": f"{MESSAGE_ID}#0",
        "tool": "Bash",
        "input": {"command": "rm -rf build"},
        "summary": "rm -rf build",
    },
    "message": "Run `rm -rf build`?",
    "reason": "It is not read-only.",
    "destructive": True,
    "diff": None,
    "choices": ["allow", "allow_always", "deny", "deny_always"],
    "suggestions": [
        {"rule": "Bash(rm -rf build)", "scope": "session"},
        {"rule": "Bash(rm -rf build)", "scope": "local"},
    ],
    "opened_at": TIME,
    "expires_at": None,
    "answer": None,
    "answered_by": None,
}

_OTHER_ASK = {key: value for key, value in ASK_PERMISSION.items() if key not in {"call", "suggestions"}}

ASK_QUESTION = {
    **_OTHER_ASK,
    "agent": {"name": "tester", "kind": "general"},
    "kind": "question",
    "status": "resolved",
    "choices": ["answer", "decline"],
    "questions": [{"question": "Which database?", "options": [{"label": "SQLite"}, {"label": "PostgreSQL"}]}],
    "answer": {"choice": "answer", "answers": {"Which database?": ["SQLite"]}, "notes": {}},
    "answered_by": "c_0mhwq3v1kabcdefghijk",
}

ASK_PLAN = {
    **_OTHER_ASK,
    "kind": "plan",
    "choices": ["approve", "reject"],
    "plan": "1. Read.\n2. Write.",
    "path": "/home/a/.ostler/plans/p.md",
    "allowed_prompts": [],
}

ASK_ELICITATION = {
    **_OTHER_ASK,
    "kind": "elicitation",
    "choices": ["accept", "decline", "cancel"],
    "server": "tracker",
    "schema": {"type": "object", "properties": {"project": {"type": "string"}}},
}

ASK_TRUST = {
    **_OTHER_ASK,
    "kind": "trust",
    "choices": ["trust", "restrict"],
    "folder": "/home/a/proj",
}

TASK = {
    "id": "b7k2m1q9z",
    "type": "local_bash",
    "status": "running",
    "description": "the development server",
    "session_id": SESSION_ID,
    "agent_id": None,
    "call_id": f"{MESSAGE_ID}#0",
    "tool_use_id": "toolu_1",
    "command": "npm run dev",
    "exit_code": None,
    "error": None,
    "started_at": TIME,
    "ended_at": None,
    "paused_ms": 0,
    "output_bytes": 512,
    "output_offset": 0,
    "notified": False,
}

SESSION_AT_WORK = {**SESSION, "status": "waiting", "turn": TURN, "message": MESSAGE, "asks": [ASK_PERMISSION]}

EVENT = {
    "cursor": 57,
    "session_id": SESSION_ID,
    "root_id": SESSION_ID,
    "turn_id": TURN_ID,
    "time": TIME,
    "type": "tool.completed",
    "data": {"call": CALL},
}

DATA: dict[str, dict[str, Any]] = {
    "session.updated": {"session": SESSION},
    "turn.started": {"turn": TURN},
    "message.completed": {"message": MESSAGE},
    "message.delta": {"message_id": MESSAGE_ID, "index": 0, "kind": "text", "offset": 3, "text": "un"},
    "tool.completed": {"call": CALL},
    "tool.progress": {
        "call_id": f"{MESSAGE_ID}#1",
        "parent_call_id": None,
        "kind": "shell",
        "elapsed_ms": 1500,
        "data": {"output": "12 passed", "lines": 1},
    },
    "ask.opened": {"ask": ASK_PERMISSION},
    "task.started": {"task": TASK},
    "task.output": {"task_id": "b7k2m1q9z", "offset": 512, "text": "ready\n"},
    "notice": {"level": "warning", "text": "The disk is nearly full."},
}

EXAMPLES: list[tuple[str, type[BaseModel], dict[str, Any]]] = [
    ("session", Session, SESSION),
    ("session at work", Session, SESSION_AT_WORK),
    ("session/create", SessionCreate, SESSION_CREATE_PARAMS),
    ("turn", Turn, TURN),
    ("turn that failed", Turn, TURN_FAILED),
    ("message", Message, MESSAGE),
    ("message with results", Message, RESULTS_MESSAGE),
    ("call", Call, CALL),
    ("ask for permission", Ask, ASK_PERMISSION),
    ("ask with questions", Ask, ASK_QUESTION),
    ("ask about a plan", Ask, ASK_PLAN),
    ("ask of a server", Ask, ASK_ELICITATION),
    ("ask for trust", Ask, ASK_TRUST),
    ("task", Task, TASK),
    ("event", Event, EVENT),
    *((name, EVENT_TYPES[name].data, data) for name, data in DATA.items()),
]


def find_differences(example: Any, sent: Any, path: str = "") -> list[str]:
    """Lists what is missing or different in an example after a round trip through its model."""
    match example, sent:
        case dict(), dict():
            missing = [f"{path}.{key}" for key in example.keys() - sent.keys()]
            return missing + [
                line
                for key in example.keys() & sent.keys()
                for line in find_differences(example[key], sent[key], f"{path}.{key}")
            ]
        case list(), list() if len(example) == len(sent):
            return [line for at, one in enumerate(example) for line in find_differences(one, sent[at], f"{path}[{at}]")]
        case _:
            return [] if example == sent else [f"{path}: {example!r} became {sent!r}"]


@pytest.mark.parametrize(("model", "example"), [each[1:] for each in EXAMPLES], ids=[each[0] for each in EXAMPLES])
def test_an_example_goes_through_its_model_and_loses_nothing(model: type[BaseModel], example: dict[str, Any]) -> None:
    assert find_differences(example, model.model_validate(example).model_dump(mode="json")) == []


def test_a_field_that_no_model_has_would_be_missed() -> None:
    example = {**TASK, "colour": "red"}
    assert find_differences(example, Task.model_validate(example).model_dump(mode="json")) == [".colour"]


def test_a_block_of_an_unknown_kind_comes_back_as_it_was() -> None:
    message = Message.model_validate(MESSAGE)
    assert message.content[3].model_dump() == {"type": "a_kind_of_next_year", "payload": [1, 2]}


def test_params_of_the_example_are_those_of_the_method() -> None:
    assert set(SESSION_CREATE_PARAMS) == set(SESSION_CREATE.params.model_fields)
