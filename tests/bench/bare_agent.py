"""The floor of a turn: a bare agent loop that requests a message, runs its calls and goes on. It stores nothing."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

import httpx2
import orjson

_HEADERS: Final = {"x-api-key": "none", "anthropic-version": "2023-06-01", "content-type": "application/json"}
_TOOLS: Final = [{"name": name, "input_schema": {"type": "object"}} for name in ("Read", "Bash")]

Json = dict[str, Any]


def _build_history(name: str, count: int, text: str) -> list[Json]:
    """The messages of a conversation that has `count` of them already."""
    messages: list[Json] = [{"role": "user", "content": f"[{name}] go on"}]
    for number in range((count - 1) // 2):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file_path": "/x"}}
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": text}]}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return messages


async def _request_calls(client: httpx2.AsyncClient, messages: list[Json]) -> list[Json]:
    """The calls of the model's next message."""
    body = orjson.dumps({"model": "m", "max_tokens": 1, "stream": True, "tools": _TOOLS, "messages": messages})
    calls: list[Json] = []
    async with client.stream("POST", "/v1/messages", content=body, headers=_HEADERS) as response:
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            event = orjson.loads(line[6:])
            match event["type"]:
                case "content_block_start" if event["content_block"]["type"] == "tool_use":
                    calls.append({**event["content_block"], "input": ""})
                case "content_block_delta" if calls:
                    calls[-1]["input"] += event["delta"].get("partial_json", "")
                case _:
                    pass
    return [{**call, "input": orjson.loads(call["input"])} for call in calls]


async def _run_call(call: Json) -> Json:
    if call["name"] == "Read":
        text = await asyncio.to_thread(Path(call["input"]["file_path"]).read_text)
    else:
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", call["input"]["command"], stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        text = (await process.communicate())[0].decode()
    content = [{"type": "text", "text": text or "(nothing)"}]
    return {"type": "tool_result", "tool_use_id": call["id"], "content": content}


async def _run_turn(client: httpx2.AsyncClient, messages: list[Json], requests: int) -> None:
    for _ in range(requests):
        calls = await _request_calls(client, messages)
        if not calls:
            return
        messages.append({"role": "assistant", "content": calls})
        messages.append({"role": "user", "content": await asyncio.gather(*map(_run_call, calls))})


async def _handle_orders(order: Json) -> None:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(base_url=order["url"], timeout=60, limits=limits, trust_env=False) as client:
        histories: dict[str, list[Json]] = {}
        _write({})
        while line := await asyncio.to_thread(sys.stdin.readline):
            batch = json.loads(line)
            for name in batch["conversations"]:
                histories.setdefault(name, _build_history(name, batch["messages"], batch["text"]))
            turns = (_run_turn(client, histories[name], batch["requests"]) for name in batch["conversations"])
            await asyncio.gather(*turns)
            _write({})


def _write(answer: Json) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_handle_orders(json.loads(sys.stdin.readline())))
