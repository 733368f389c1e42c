"""Which client is asked for a tool that several have, and on whose behalf."""

from pathlib import Path

from ostler.protocol.ids import SessionId
from ostler.server.clients.client_tools import ClientAnswer
from ostler.storage import Scope
from tests.support.daemon import wait_until
from tests.support.driver import BackgroundThread
from tests.support.editor import open_editor
from tests.support.inprocess import InProcessDaemon
from tests.support.session_events import create_session, make_agent


def start_call(daemon: InProcessDaemon, session_id: str, root_id: str) -> BackgroundThread:
    """A call of the tool `look`, under way."""
    scope = Scope(SessionId(session_id), SessionId(root_id))
    calls = daemon.running.client_tools

    async def call() -> ClientAnswer | None:
        return await calls.call(scope, "look", {"at": "it"}, 20)

    return BackgroundThread(lambda: daemon.run_on_loop(call))


def test_who_watches_the_root_or_the_agent_is_asked_for_the_agent(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        root = create_session(daemon)
        agent = make_agent(daemon, root, "s_agent")
        for watched in (root, agent):
            with open_editor(daemon, f"?session={watched}", tools=("look",)) as client:
                # What an agent's stream may have missed is read to it first; then it is live.
                wait_until(lambda: len(daemon.running.log.subscribers) == 1)
                answer = start_call(daemon, agent, root)
                client.answer_next(lambda given: [given["at"], "seen"])
                assert answer.result() == ClientAnswer(["it", "seen"], None)
            wait_until(lambda: not daemon.running.log.subscribers)


def test_who_watches_something_else_or_has_another_tool_is_not_asked(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        root, other = create_session(daemon), create_session(daemon)
        agent = make_agent(daemon, root, "s_agent")
        with (
            open_editor(daemon, f"?session={other}", tools=("look",)),
            open_editor(daemon, f"?session={agent}", tools=("look",)),
            open_editor(daemon, tools=("listen",)),
        ):
            calls = daemon.running.client_tools

            async def call() -> ClientAnswer | None:
                return await calls.call(Scope(SessionId(root), SessionId(root)), "look", {}, 20)

            assert daemon.run_on_loop(call) is None


def test_of_several_the_one_that_came_last_is_asked_and_then_the_one_before(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        root = create_session(daemon)
        with open_editor(daemon, tools=("look",)) as first:
            with open_editor(daemon, f"?session={root}", tools=("look", "listen")) as last:
                answer = start_call(daemon, root, root)
                assert last.answer_next(lambda given: 1)["client_id"] == last.client_id
                assert answer.result() == ClientAnswer(1, None)
            # Gone when the others are told of it.
            first.wait_for_event("client.detached")
            answer = start_call(daemon, root, root)
            call = first.wait_for_call()
            while call["client_id"] != first.client_id:  # what the other was asked was seen here, too
                call = first.wait_for_call()
            first.respond(call["id"], error="not now")
            assert answer.result() == ClientAnswer(None, "not now")
