"""Requests to the scripted server, for its own tests."""

import json
import ssl
from typing import Any, Final

import httpx2

from tests.support.messages_api.server import ScriptedApi

HEADERS: Final = {"x-api-key": "k", "anthropic-version": "2023-06-01"}

Json = dict[str, Any]


def user(*content: Any) -> Json:
    return {"role": "user", "content": [text_block(each) if isinstance(each, str) else each for each in content]}


def assistant(*content: Any) -> Json:
    return {"role": "assistant", "content": [text_block(each) if isinstance(each, str) else each for each in content]}


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


UNENCRYPTED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Without certificates: to read those of the system takes longer than any test here."""


def use(name: str = "toolu_1") -> Json:
    return {"type": "tool_use", "id": name, "name": "Read", "input": {}}


def result(name: str = "toolu_1") -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": "ok"}


def body(*messages: Json, **fields: Any) -> Json:
    return {"model": "m", "max_tokens": 10, "stream": True, "messages": list(messages) or [user("hello")], **fields}


def post(api: ScriptedApi, request: Json | None = None, headers: dict[str, str] = HEADERS) -> httpx2.Response:
    return httpx2.post(f"{api.url}/v1/messages", json=request or body(), headers=headers, verify=UNENCRYPTED)


def parse_events(response: httpx2.Response) -> list[Json]:
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
