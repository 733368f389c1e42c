"""Handles requests: checks them, records them, and finds their scripted answers."""

import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import anyio.to_thread
import orjson

from tests.support.messages_api.behaviors import WAIT_SECONDS, Reply
from tests.support.messages_api.connection import Answer, IncomingRequest
from tests.support.messages_api.failures import fails, new_request_id, wrong_key
from tests.support.messages_api.prefix import PrefixChange, PrefixWatch
from tests.support.messages_api.recorded_requests import RecordedRequest, Violation
from tests.support.messages_api.scripts import Script, ScriptLibrary, Step, script
from tests.support.messages_api.token_meter import TokenMeter
from tests.support.messages_api.validation import ends_with_assistant, find_problems
from tests.support.messages_api.whole_messages import render_whole

Body = dict[str, Any]


class ScriptRegistry:
    """Answers by its scripts, checks every request as strictly as the real API, and records them all."""

    def __init__(self, *scripts: Script, default: Script | None = None, strict: bool = True, keep: bool = True) -> None:
        self.requests: list[RecordedRequest] = []
        self.violations: list[Violation] = []
        self.prefix_changes: list[PrefixChange] = []
        self.keys: frozenset[str] | None = None
        """The keys that are let in; null: all."""
        self.models: Sequence[str] | Reply = ("claude-sonnet-5", "claude-opus-5-5")
        """What `GET /v1/models` lists, or answers."""
        self.only_models = False
        """Refuse requests for other models than these, with a 404, as the API does."""
        self.model_requests: list[Mapping[str, str]] = []
        """The headers of each request for the list of models."""
        self.meter: TokenMeter | None = None
        """Counts the tokens of each request, whatever the scripts say, and refuses those that do not fit."""
        self._strict = strict
        self._keep = keep
        self._library = ScriptLibrary(scripts, default)
        self._watch = PrefixWatch()
        self._paused: set[tuple[str, int]] = set()
        self._arrived = threading.Condition()

    def script(self, name: str, *steps: Step, otherwise: Step | None = None) -> None:
        """The answers to the conversations that have `[name]` or `[name:anything]` in their first user message."""
        self._library.add(script(name, *steps, otherwise=otherwise))

    def always(self, *steps: Step, otherwise: Step | None = None) -> None:
        """The answers to every conversation that names no script."""
        self._library.default = script("default", *steps, otherwise=otherwise)

    def list_requests(self, conversation: str) -> list[RecordedRequest]:
        """The requests of one conversation: of `name`, or of `name:anything`."""
        return [request for request in self.requests if request.conversation == conversation]

    def wait_for_requests(self, count: int, seconds: float = WAIT_SECONDS) -> list[RecordedRequest]:
        """Return when so many requests have come in all."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, seconds):
                raise TimeoutError(f"{len(self.requests)} requests came in {seconds} s, not {count}")
            return list(self.requests)

    async def wait_for_requests_async(self, count: int, seconds: float = WAIT_SECONDS) -> list[RecordedRequest]:
        """The same for a test that is a coroutine."""
        return await anyio.to_thread.run_sync(self.wait_for_requests, count, seconds)

    def handle(self, incoming: IncomingRequest) -> Answer:
        """For the server: what to do about a request."""
        path = incoming.path.partition("?")[0]
        match incoming.method, path:
            case "POST", "/v1/messages":
                return self._handle_message(incoming)
            case "GET", "/v1/models":
                return self._handle_models(incoming)
            case "GET", "/record":
                return Answer(_build_json_reply(self._build_report()), None)
            case "DELETE", "/record":
                self._clear_records()
                return Answer(_build_json_reply({}), None)
            case _:
                return Answer(fails(404, f"there is no {incoming.method} {path}"), None)

    def _handle_models(self, incoming: IncomingRequest) -> Answer:
        """The list of models, as the real API gives it; `models` may be any other reply."""
        self.model_requests.append(incoming.headers)
        problems = [*_find_header_problems(incoming, with_body=False)]
        if self._strict and problems:
            return Answer(fails(400, problems[0]), None)
        if self._refuses(incoming.headers):
            return Answer(wrong_key(), None)
        if isinstance(self.models, Reply):
            return Answer(self.models, None)
        rows = [build_model_info(name) for name in self.models]
        ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {"first_id": None, "last_id": None}
        return Answer(_build_json_reply({"data": rows, "has_more": False, **ends}), None)

    @property
    def _model_names(self) -> Sequence[str]:
        return () if isinstance(self.models, Reply) else self.models

    def _refuses(self, headers: Mapping[str, str]) -> bool:
        given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        return self.keys is not None and given not in self.keys

    def read(self, body: memoryview) -> Body | None:
        """What a request says; None where it is no JSON object."""
        return _decode_body(body)

    def _handle_message(self, incoming: IncomingRequest) -> Answer:
        body = self.read(incoming.body)
        found = self._find_problems(incoming, body)
        if body is None or found:
            return self._refuse(self._record_request(incoming, body or {}, ""), found)
        if self._refuses(incoming.headers):
            return Answer(wrong_key(), self._record_request(incoming, body, ""))
        if self.only_models and body.get("model") not in self._model_names:
            # In the API's own words.
            return Answer(fails(404, f"model: {body.get('model')}"), self._record_request(incoming, body, ""))
        conversation, chosen = self._library.find(body)
        record = self._record_request(incoming, body, conversation)
        if self._strict:
            if ends_with_assistant(body) and (conversation, record.step - 1) not in self._paused:
                return self._refuse(record, ["messages: the last message must be the user's"])
            self.prefix_changes += self._watch.compare(conversation, record.number, body)
        return self._accept(record, chosen)

    def _accept(self, record: RecordedRequest, chosen: Script | None) -> Answer:
        try:
            reply = self._library.choose_reply(chosen, record)
        except Exception as error:  # the test's own function: its test fails with these words
            return self._refuse(record, [f"the script of {record.conversation!r} raised {error!r}"])
        if reply is None:
            return self._refuse(record, [f"the script of {record.conversation!r} has no answer number {record.step}"])
        if self.meter is not None:
            reply = self.meter.answer(record.conversation, record.body, reply)
        if reply.stop_reason == "pause_turn":
            self._paused.add((record.conversation, record.step))
        if reply.whole or record.body.get("stream") is not True:
            reply = render_whole(reply, record.body["model"])
        if not self._keep:
            record.body = {"model": record.body["model"]}
        if "request-id" not in reply.headers:
            reply = dataclasses.replace(reply, headers={**reply.headers, "request-id": new_request_id()})
        return Answer(reply, record)

    def _refuse(self, record: RecordedRequest, found: list[str]) -> Answer:
        self.violations += [Violation(record.number, record.conversation, text) for text in found]
        return Answer(fails(400, found[0]), record)

    def _find_problems(self, incoming: IncomingRequest, body: Body | None) -> list[str]:
        if body is None:
            return ["the body must be a JSON object"]
        if not self._strict:
            return []
        return [*_find_header_problems(incoming), *find_problems(body)]

    def _record_request(self, incoming: IncomingRequest, body: Body, conversation: str) -> RecordedRequest:
        messages = [message for message in _as_list(body.get("messages")) if isinstance(message, dict)]
        with self._arrived:
            record = RecordedRequest(
                number=len(self.requests),
                conversation=conversation,
                step=sum(message.get("role") == "assistant" for message in messages),
                message_count=len(messages),
                headers=incoming.headers,
                body=body,
                size=incoming.size,
                began=incoming.began,
                received=incoming.received,
            )
            self.requests.append(record)
            self._arrived.notify_all()
        return record

    def _build_report(self) -> dict[str, Any]:
        return {
            "requests": [request.as_json() for request in self.requests],
            "violations": self.violations,
            "prefix_changes": self.prefix_changes,
        }

    def _clear_records(self) -> None:
        self.requests.clear()
        self.violations.clear()
        self.prefix_changes.clear()


def _decode_body(body: memoryview) -> Body | None:
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return decoded if isinstance(decoded, dict) else None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def build_model_info(name: str) -> dict[str, Any]:
    """A model as the API describes it."""
    return {
        "type": "model",
        "id": name,
        "display_name": name.replace("-", " ").title(),
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": 300_000,
        "max_tokens": 30_000,
    }


def _find_header_problems(incoming: IncomingRequest, *, with_body: bool = True) -> Iterator[str]:
    headers = incoming.headers
    if with_body and not headers.get("content-type", "").startswith("application/json"):
        yield "content-type: must be application/json"
    if "anthropic-version" not in headers:
        yield "anthropic-version: this header is required"
    if "x-api-key" not in headers and not headers.get("authorization", "").startswith("Bearer "):
        yield "x-api-key: a key is required"


def _build_json_reply(value: Any) -> Reply:
    return Reply(headers={"content-type": "application/json"}, body=orjson.dumps(value))
