"""Which client is asked for a tool that several have, and on whose behalf."""

from pathlib import Path

from ostler.protocol.ids import SessionId
from ostler.server.clients.client_tools import Answered
from ostler.storage import Scope
from tests.support.acting import create, make_agent
from tests.support.daemon import wait_until
from tests.support.driver import Beside
from tests.support.editor import editor
from tests.support.inprocess import InProcessDaemon


def asks(daemon: InProcessDaemon, session_id: str, root_id: str) -> Beside:
    """A call of the tool `look`, under way."""
    scope = Scope(SessionId(session_id), SessionId(root_id))
    calls = daemon.running.house.client_calls

    async def call() -> Answered | None:
        return await calls.call(scope, "look", {"at": "it"}, 20)

    return Beside(lambda: daemon.do(call))


def test_who_watches_the_root_or_the_agent_is_asked_for_the_agent(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        root = create(daemon)
        agent = make_agent(daemon, root, "s_agent")
        for watched in (root, agent):
            with editor(daemon, f"?session={watched}", tools=("look",)) as client:
                # What an agent's stream may have missed is read to it first; then it is live.
                wait_until(lambda: len(daemon.running.house.log.readers) == 1)
                answer = asks(daemon, agent, root)
                client.answer_next(lambda given: [given["at"], "seen"])
                assert answer.result() == Answered(["it", "seen"], None)
            wait_until(lambda: not daemon.running.house.log.readers)


def test_who_watches_something_else_or_has_another_tool_is_not_asked(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        root, other = create(daemon), create(daemon)
        agent = make_agent(daemon, root, "s_agent")
        with (
            editor(daemon, f"?session={other}", tools=("look",)),
            editor(daemon, f"?session={agent}", tools=("look",)),
            editor(daemon, tools=("listen",)),
        ):
            calls = daemon.running.house.client_calls

            async def call() -> Answered | None:
                return await calls.call(Scope(SessionId(root), SessionId(root)), "look", {}, 20)

            assert daemon.do(call) is None


def test_of_several_the_one_that_came_last_is_asked_and_then_the_one_before(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        root = create(daemon)
        with editor(daemon, tools=("look",)) as first:
            with editor(daemon, f"?session={root}", tools=("look", "listen")) as last:
                answer = asks(daemon, root, root)
                assert last.answer_next(lambda given: 1)["client_id"] == last.client_id
                assert answer.result() == Answered(1, None)
            # Gone when the others are told of it.
            first.until("client.detached")
            answer = asks(daemon, root, root)
            call = first.asked()
            while call["client_id"] != first.client_id:  # what the other was asked was seen here, too
                call = first.asked()
            first.respond(call["id"], error="not now")
            assert answer.result() == Answered(None, "not now")
