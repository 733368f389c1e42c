"""A session as one file: JSON Lines, JSON or Markdown, written page by page."""

from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol

import orjson

from ostler.protocol.agent import AgentInfo
from ostler.protocol.content import ContentBlock
from ostler.protocol.errors import TooLarge
from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.limits import MAX_BODY_BYTES
from ostler.protocol.session import Export, ExportFormat, Session, SessionExport
from ostler.protocol.shapes import Message
from ostler.server.engine.agents.listing import list_stored_agents
from ostler.server.engine.journal.session_view import read_session
from ostler.server.events.chunks import split_chunks
from ostler.server.events.event_log import EventLog
from ostler.storage import Snapshot
from ostler.storage.sqlite import long_json
from ostler.tools.threads import read_in_thread

_PAGE_SIZE: Final = 100
MEDIA_TYPES: Final[dict[ExportFormat, str]] = {
    "jsonl": "application/jsonl",
    "json": "application/json",
    "markdown": "text/markdown; charset=utf-8",
}
_SUFFIXES: Final[dict[ExportFormat, str]] = {"jsonl": "jsonl", "json": "json", "markdown": "md"}


def make_export_filename(session_id: SessionId, wanted: ExportFormat) -> str:
    return f"{session_id}.{_SUFFIXES[wanted]}"


async def read_exported_session(log: EventLog, session_id: SessionId) -> Session:
    """The session itself: read first, so that an unknown one is an error and not half a file."""

    def read_rows(snapshot: Snapshot) -> Session:
        record = snapshot.sessions.get(session_id)
        return read_session(snapshot, record, snapshot.events.load_head())

    return await log.read(read_rows)


async def export_lines(log: EventLog, session: Session, wanted: ExportFormat) -> AsyncIterator[bytes]:
    """The file in pieces, one page of messages in memory at a time."""
    writer = _WRITERS[wanted]
    yield writer.render_head(session)
    parts: AgentParts = {}
    if wanted == "markdown":  # for people; programs ask for an agent by its id
        agents = await log.read(lambda snapshot: list_stored_agents(snapshot, session.id))
        parts = {agent.call_id: agent for agent in agents if agent.call_id is not None}
    async for piece in _export_history(log, session.id, writer, parts):
        yield piece
    yield writer.render_tail()


AgentParts = Mapping[CallId, AgentInfo]
"""Agents by the calls that started them."""


async def _export_history(
    log: EventLog, session_id: SessionId, writer: "_Writer", parts: AgentParts
) -> AsyncIterator[bytes]:
    """The messages of a session, and behind each of them those of the agents that its calls have started."""
    first = True
    async for message in _read_history(log, session_id):
        if long_json.is_long(message):
            for chunk in split_chunks(await read_in_thread(writer.render_message, message, first)):
                yield chunk
        else:
            yield writer.render_message(message, first)
        first = False
        for index in range(len(message.content)) if parts else ():
            agent = parts.get(CallId(f"{message.id}#{index}"))
            if agent is not None and agent.agent_id is not None:
                yield _render_part_head(agent)
                async for piece in _export_history(log, agent.agent_id, writer, parts):
                    yield piece
                yield b"\n</details>\n"


async def export_whole(log: EventLog, params: SessionExport) -> Export:
    session = await read_exported_session(log, params.session_id)
    parts: list[bytes] = []
    size = 0
    async for part in export_lines(log, session, params.format):
        parts.append(part)
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise TooLarge(
                f"The export is larger than {MAX_BODY_BYTES} bytes. "
                f"Download it from /sessions/{session.id}/export?format={params.format} instead."
            )
    return Export(
        session_id=session.id,
        format=params.format,
        filename=make_export_filename(session.id, params.format),
        media_type=MEDIA_TYPES[params.format],
        content=b"".join(parts).decode(),
    )


async def _read_history(log: EventLog, session_id: SessionId) -> AsyncIterator[Message]:
    after = 0
    while True:
        start = after
        page = await log.read(lambda snapshot: snapshot.messages.list_page(session_id, start, _PAGE_SIZE))  # noqa: B023
        for message in page.messages:
            yield message
        if not page.more:
            return
        after = page.last


class _Writer(Protocol):
    def render_head(self, session: Session) -> bytes: ...

    def render_message(self, message: Message, first: bool) -> bytes: ...

    def render_tail(self) -> bytes: ...


class _JsonLines:
    def render_head(self, session: Session) -> bytes:
        return b'{"type":"session","session":' + session.encoded() + b"}\n"

    def render_message(self, message: Message, first: bool) -> bytes:
        return b"".join((b'{"type":"message","message":', long_json.encode(message), b"}\n"))

    def render_tail(self) -> bytes:
        return b""


class _Json:
    def render_head(self, session: Session) -> bytes:
        return b'{"session":' + session.encoded() + b',"messages":['

    def render_message(self, message: Message, first: bool) -> bytes:
        return b"".join((b"" if first else b",", long_json.encode(message)))

    def render_tail(self) -> bytes:
        return b"]}\n"


class _Markdown:
    def render_head(self, session: Session) -> bytes:
        title = session.title or f"Session {session.id}"
        facts = [
            ("session", session.id),
            ("folder", session.cwd),
            ("model", session.model),
            ("created", session.created_at),
        ]
        lines = [f"# {title}", "", *(f"- {name}: `{value}`" for name, value in facts), ""]
        return "\n".join(lines).encode()

    def render_message(self, message: Message, first: bool) -> bytes:
        speaker = "Tool" if message.source_call_id is not None else message.role.capitalize()
        heading = f"\n## {speaker}\n\n" if not message.summary else "\n## Compacted here\n\nThe model goes on with:\n\n"
        return (heading + "\n".join(_render_block(block) for block in message.content) + "\n").encode()

    def render_tail(self) -> bytes:
        return b""


def _render_part_head(agent: AgentInfo) -> bytes:
    """An agent's part is one line that opens."""
    used = f"{agent.usage.input_tokens} tokens in, {agent.usage.output_tokens} out"
    import html  # noqa: PLC0415 - a millisecond of every start, for the exports of a few

    words = html.escape(f"{agent.name or agent.description} ({agent.kind}): {agent.status}, {used}")
    return f"\n<details><summary>{words}</summary>\n".encode()


def _render_block(block: ContentBlock) -> str:
    match block.type:
        case "text":
            return f"{getattr(block, 'text', '')}\n"
        case "thinking":
            quoted = "\n".join(f"> {line}" for line in str(getattr(block, "thinking", "")).splitlines())
            return f"{quoted}\n"
        case "tool_use":
            call_input = orjson.dumps(getattr(block, "input", {}), option=orjson.OPT_INDENT_2).decode()
            return f"**{getattr(block, 'name', 'tool')}**\n\n{_fence(call_input, 'json')}\n"
        case "tool_result":
            return f"{_fence(_extract_result_text(getattr(block, 'content', '')))}\n"
        case other:
            return f"*({other})*\n"


def _extract_result_text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", f"({block.get('type')})")) for block in blocks)


def _fence(text: str, language: str = "") -> str:
    # A fence longer than any run of backticks inside: what a tool printed may hold fences of its own.
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


_WRITERS: Final[dict[ExportFormat, _Writer]] = {"jsonl": _JsonLines(), "json": _Json(), "markdown": _Markdown()}
