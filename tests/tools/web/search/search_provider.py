"""A server that demands of a search what the real providers demand, and answers in their shapes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from tests.support.connections import serve_connections
from tests.tools.web.site import respond

Json = dict[str, Any]
Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]

KEY = "key-of-the-tests"
PAGES = [
    ("Feeding <strong>horses</strong> &amp; ponies", "https://a.example/feed", "Hay\u202e first,\n then <b>oats</b>."),
    ("Horses", "https://sub.b.example/h", "About horses."),
    ("Other", "https://c.example/", ""),
]


class SearchProvider:
    """Answers as one of them, or with what a test says."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.asked: list[Json] = []
        """What each request asked for, in words of its own."""
        self.heads: list[str] = []

    async def __aenter__(self) -> "SearchProvider":
        self._server = serve_connections(self._serve)
        self.port = await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__(None, None, None)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.heads.append(head)
        method, target, _ = first.split(" ")
        answer = self.answer or self._answer(method, target, headers, body)
        if isinstance(answer, bytes):
            writer.write(answer)
            await writer.drain()
        else:
            await answer(writer)

    def _answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
        parts = urlsplit(target)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match method, parts.path:
            case "GET", "/search":
                return self._answer_searxng(asked)
            case "GET", "/res/v1/web/search":
                return self._answer_brave(asked, headers)
            case "POST", "/search" if "authorization" in headers:
                return self._answer_tavily(orjson.loads(body), headers)
            case "POST", "/search":
                return self._answer_exa(orjson.loads(body), headers)
            case _:
                return render({"error": "no such place"}, 404)

    def _answer_searxng(self, asked: Json) -> bytes:
        self.asked.append(asked)
        if asked.get("format") != "json":
            return respond("<html>")
        results = [
            {"title": title, "url": url, "content": text, "engine": "x", "engines": ["x"], "score": 1.0}
            for title, url, text in PAGES
        ]
        rest: Json = {"answers": [], "corrections": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": []}
        return render({"query": asked["q"], "number_of_results": 3, "results": results, **rest})

    def _answer_brave(self, asked: Json, headers: dict[str, str]) -> bytes:
        if headers.get("x-subscription-token") != KEY:
            return render({"type": "ErrorResponse", "error": {"status": 401}}, 401)
        if not 1 <= int(asked["count"]) <= 20 or len(asked["q"]) > 400:
            return render({"type": "ErrorResponse", "error": {"status": 422}}, 422)
        self.asked.append(asked)
        results = [
            {"type": "search_result", "title": title, "url": url, "description": text, "language": "en"}
            for title, url, text in PAGES
        ]
        query = {"original": asked["q"], "more_results_available": False}
        return render({"type": "search", "query": query, "web": {"type": "search", "results": results}})

    def _answer_tavily(self, asked: Json, headers: dict[str, str]) -> bytes:
        if headers["authorization"] != f"Bearer {KEY}":
            return render({"detail": {"error": "Unauthorized: missing or invalid API key."}}, 401)
        self.asked.append(asked)
        results = [
            {"title": title, "url": url, "content": text, "score": 0.9, "raw_content": None}
            for title, url, text in PAGES
        ]
        rest: Json = {"answer": None, "images": [], "follow_up_questions": None, "response_time": 0.1}
        return render({"query": asked["query"], "results": results, **rest})

    def _answer_exa(self, asked: Json, headers: dict[str, str]) -> bytes:
        if headers.get("x-api-key") != KEY:
            return render({"error": "Invalid API key"}, 401)
        self.asked.append(asked)
        results = [{"id": url, "title": title, "url": url, "text": text, "author": None} for title, url, text in PAGES]
        return render({"requestId": "r", "resolvedSearchType": "neural", "results": results, "costDollars": {}})


def render(answer: Any, code: int = 200, *headers: str) -> bytes:
    return respond(orjson.dumps(answer), *headers, code=code, media_type="application/json")
