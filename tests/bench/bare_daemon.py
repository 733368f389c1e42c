"""The floor of a start: a bare daemon on FastAPI and uvicorn that runs turns with a model, and does nothing else.

It asks nobody, stores nothing, has no tools and knows no second client; like any such daemon it imports at its start
what it needs.
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

_HEADERS: Final = {"x-api-key": "none", "anthropic-version": "2023-06-01"}


class TurnStart(BaseModel):
    input: str


class TurnResult(BaseModel):
    text: str


def build_app(model_url: str) -> FastAPI:
    client = httpx2.AsyncClient(base_url=model_url, timeout=60, trust_env=False)

    @asynccontextmanager
    async def close_client(app: FastAPI) -> AsyncIterator[None]:
        async with client:
            yield

    app = FastAPI(lifespan=close_client)

    @app.post("/turns")
    async def run_turn(turn: TurnStart) -> TurnResult:
        body = {
            "model": "m",
            "max_tokens": 1000,
            "stream": True,
            "messages": [{"role": "user", "content": turn.input}],
        }
        text = ""
        async with client.stream("POST", "/v1/messages", json=body, headers=_HEADERS) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    text += _read_text(json.loads(line[6:]))
        return TurnResult(text=text)

    return app


def _read_text(event: dict[str, Any]) -> str:
    return str(event["delta"].get("text", "")) if event["type"] == "content_block_delta" else ""


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets is not None
        sys.stdout.write(f"ready http://127.0.0.1:{sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    server = _Server(uvicorn.Config(build_app(sys.argv[1]), log_level="warning"))
    asyncio.run(server.serve([listening]))


if __name__ == "__main__":
    main()
