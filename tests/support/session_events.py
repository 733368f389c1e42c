"""Calls that tests make on a daemon as clients do, and events that they write as the turn engine does."""

from typing import Any

from ostler.protocol import times
from ostler.protocol.events import MessageData, MessageDelta, SessionData, ToolProgress
from ostler.protocol.ids import MessageId, SessionId
from ostler.protocol.session import Session
from ostler.protocol.shapes import Message
from ostler.storage import Scope, Tx
from ostler.storage.repositories import sessions
from tests.support.daemon import Daemon, EventStream
from tests.support.inprocess import InProcessDaemon


def create_session(daemon: Daemon, **params: Any) -> str:
    return str(daemon.call("session/create", cwd="/", **params)["id"])


def rename_session(daemon: Daemon, session_id: str, *titles: str) -> None:
    for title in titles:
        daemon.call("session/update", session_id=session_id, title=title)


def extract_titles(events: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["session"]["title"] for event in events]


def replay_events(daemon: Daemon, query: str = "?after=0") -> list[dict[str, Any]]:
    """Everything that is stored; a last event of our own tells where it ends."""
    marker = create_session(daemon, title="the end")
    found: list[dict[str, Any]] = []
    with daemon.follow(query) as stream:
        for event in stream.read_events():
            if event["session_id"] == marker:
                break
            found.append(event)
    daemon.call("session/delete", session_id=marker)
    return found


def build_session_shape(record: sessions.SessionRecord, cursor: int) -> dict[str, Any]:
    from ostler.protocol.ids import Cursor
    from ostler.server.engine.journal.session_view import build_session

    return build_session(record, Cursor(cursor)).model_dump()


def make_agent(daemon: InProcessDaemon, parent_id: str, agent_id: str) -> str:
    """A session that works for another, as the engine makes them."""
    from dataclasses import replace

    def work(tx: Tx) -> None:
        parent = tx.sessions.get(SessionId(parent_id))
        agent = replace(parent, id=SessionId(agent_id), parent_id=parent.id)
        tx.sessions.put(agent)
        shown = Session.model_validate(build_session_shape(agent, tx.next_cursor))
        tx.append("session.created", Scope(agent.id, agent.root_id), data=SessionData(session=shown))

    daemon.write(work, parent_id)
    return agent_id


def start_message(daemon: InProcessDaemon, session_id: str, message_id: str) -> None:
    message = Message.model_validate(
        {"id": message_id, "session_id": session_id, "role": "assistant", "content": [], "created_at": times.now()}
    )

    def work(tx: Tx) -> None:
        scope = Scope(SessionId(session_id), SessionId(session_id))
        tx.append("message.started", scope, data=MessageData(message=message))

    daemon.write(work, session_id)


def build_delta(message_id: str, offset: int, text: str, index: int = 0) -> MessageDelta:
    return MessageDelta(message_id=MessageId(message_id), index=index, kind="text", offset=offset, text=text)


def append_notice(tx: Tx, scope: Scope) -> None:
    from ostler.protocol.events import Notice

    tx.append("notice", scope, data=Notice(level="info", text="stored"))


def take_deltas(stream: EventStream, count: int) -> list[dict[str, Any]]:
    deltas = (event for event in stream.read_events() if event["type"] == "message.delta")
    return [next(deltas) for _ in range(count)]


def build_message(session_id: str, message_id: str, text: str) -> Message:
    return Message.model_validate(
        {
            "id": message_id,
            "session_id": session_id,
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "created_at": times.now(),
        }
    )


def finish_message(daemon: InProcessDaemon, session_id: str, message_id: str, text: str) -> None:
    scope = Scope(SessionId(session_id), SessionId(session_id))
    message = build_message(session_id, message_id, text)
    daemon.write(lambda tx: append_completed(tx, scope, message), session_id)


def build_progress(text: str) -> ToolProgress:
    from ostler.protocol.ids import CallId

    return ToolProgress(call_id=CallId("m_1#0"), kind="shell", elapsed_ms=1, data={"output": text})


def append_started(tx: Tx, scope: Scope, message: Message) -> int:
    data = MessageData(message=message.model_copy(update={"content": []}))
    return tx.append("message.started", scope, data=data)


def append_completed(tx: Tx, scope: Scope, message: Message) -> int:
    tx.messages.add(message)
    return tx.append("message.completed", scope, reference=message.id)
