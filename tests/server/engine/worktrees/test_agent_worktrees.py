"""The worktree of an agent: its only folder while it works, removed at its end where nothing was changed in it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId, new_session_id
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.worktrees.session_worktrees import SessionWorktrees, take_back
from ostler.server.worktrees.worktree import Worktree, WorktreeOutcome
from ostler.server.worktrees.worktrees import create_worktree
from ostler.storage.repositories.sessions import WORKTREE, SessionRecord
from ostler.tools.services import WorktreeRefused
from tests.support.git import commit_files, list_branches, make_repository, run_git
from tests.support.hooks import declare_hook
from tests.support.inprocess import InProcessDaemon
from tests.support.projects import OSTLER_SETTINGS, write_settings


@dataclass
class Agents:
    """A parent in a repository, and the agents that it is given."""

    daemon: InProcessDaemon
    folder: Path
    parent: LiveSession

    def load(self, session_id: SessionId) -> LiveSession:
        async def load() -> LiveSession:
            return (await self.daemon.running.engine.get_actor(session_id)).live

        return self.daemon.run_on_loop(load)

    def start_isolated(self) -> LiveSession:
        """An agent's session as the engine makes it: stored, then given its worktree."""
        agent = new_session_id()
        parent = self.parent.record

        async def create() -> Worktree:
            return await SessionWorktrees(self.parent, None).create_for_agent(agent)

        worktree = self.daemon.run_on_loop(create)
        options = {**parent.options, WORKTREE: worktree.as_json()}
        record = replace(parent, id=agent, parent_id=parent.id, options=options)
        self.daemon.write(lambda tx: tx.sessions.put(record))
        return self.load(agent)

    def finish(self, agent: LiveSession) -> WorktreeOutcome | None:
        return self.daemon.run_on_loop(SessionWorktrees(agent, None).finish)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessDaemon]:
    with InProcessDaemon(tmp_path_factory.mktemp("daemon") / "home", settings={"model.name": "rehearsal"}) as daemon:
        yield daemon


@pytest.fixture
def agents(daemon: InProcessDaemon, tmp_path: Path) -> Agents:
    folder = make_repository(tmp_path / "work")
    made = daemon.call("session/create", cwd=str(folder), trust=True, additional_directories=[str(tmp_path)])
    found = Agents(daemon, folder, None)  # type: ignore[arg-type]  # its parent is loaded with its help
    found.parent = found.load(SessionId(made["id"]))
    return found


def test_the_worktree_is_the_only_folder_of_an_agent_and_goes_where_nothing_was_changed(agents: Agents) -> None:
    agent = agents.start_isolated()
    tree = agent.view.folder
    assert Path(tree).parent == agents.folder / ".ostler" / "worktrees"
    assert (agent.view.roots, agent.view.shell_folder, agent.directories) == ((tree,), tree, ())
    assert agents.parent.view.folder == str(agents.folder)
    outcome = agents.finish(agent)
    assert outcome is not None
    assert (outcome.kept, outcome.why) == (False, "The worktree was removed: nothing was changed in it.")
    assert not Path(tree).exists()
    assert list_branches(agents.folder) == ["main"]


@pytest.mark.parametrize("change", ["file", "commit"])
def test_the_worktree_of_an_agent_stays_where_something_was_changed(agents: Agents, change: str) -> None:
    agent = agents.start_isolated()
    tree = Path(agent.view.folder)
    if change == "file":
        (tree / "b.txt").write_text("new")
    else:
        commit_files(tree, {"b.txt": "new"}, "second")
    outcome = agents.finish(agent)
    assert outcome is not None
    assert outcome.kept
    assert (tree / "b.txt").exists()
    assert outcome.branch in list_branches(agents.folder)
    what = "1 changed file" if change == "file" else "1 commit"
    assert outcome.why == f"The worktree {tree} on the branch {outcome.branch} was kept: it has {what}."
    assert "locked" not in run_git(agents.folder, "worktree", "list", "--porcelain")


def test_two_agents_at_once_do_not_meet(agents: Agents) -> None:
    first, second = agents.start_isolated(), agents.start_isolated()
    assert first.view.folder != second.view.folder
    (Path(first.view.folder) / "mine").touch()
    outcomes = agents.finish(second), agents.finish(first)
    assert [outcome is not None and outcome.kept for outcome in outcomes] == [False, True]


def test_an_agent_begins_at_the_commit_of_the_worktree_that_its_parent_is_in(agents: Agents) -> None:
    parent = agents.start_isolated()
    commit = commit_files(Path(parent.view.folder), {"b.txt": "new"}, "second")
    child = Agents(agents.daemon, agents.folder, parent).start_isolated()
    assert run_git(child.view.folder, "rev-parse", "HEAD") == commit
    assert Path(child.view.folder).parent == agents.folder / ".ostler" / "worktrees"


def test_an_agent_cannot_leave_its_worktree(agents: Agents) -> None:
    agent = agents.start_isolated()
    tree = agent.view.folder

    async def leave() -> None:
        await SessionWorktrees(agent, None).leave(remove=True, discard=True)

    async def enter_and_leave() -> str:
        entered = await SessionWorktrees(agent, None).enter("inner")
        assert agent.view.folder == entered.path
        return (await SessionWorktrees(agent, None).leave(remove=True, discard=False)).folder

    with pytest.raises(WorktreeRefused, match="in no worktree that it made"):
        agents.daemon.run_on_loop(leave)
    assert agents.daemon.run_on_loop(enter_and_leave) == tree
    assert (agent.view.folder, agent.view.roots) == (tree, (tree,))


def test_a_child_in_its_parents_worktree_does_not_leave_or_remove_it(agents: Agents) -> None:
    parent = agents.start_isolated()
    child = replace(parent.record, id=new_session_id(), parent_id=parent.record.id)
    agents.daemon.write(lambda tx: tx.sessions.put(child))
    live = agents.load(child.id)
    assert live.view.folder == parent.view.folder

    async def leave() -> None:
        await SessionWorktrees(live, None).leave(remove=True, discard=True)

    with pytest.raises(WorktreeRefused, match="in no worktree that it made"):
        agents.daemon.run_on_loop(leave)
    agents.daemon.call("session/delete", session_id=child.id)
    assert Path(parent.view.folder).is_dir()


def test_hooks_are_told_of_the_worktrees_of_agents(agents: Agents, tmp_path: Path) -> None:
    told = tmp_path / "told"
    hooks = {
        **declare_hook("WorktreeCreate", f"echo create >> {told}")["hooks"],
        **declare_hook("WorktreeRemove", f"echo remove >> {told}")["hooks"],
    }
    write_settings(agents.folder, OSTLER_SETTINGS, {"hooks": hooks})
    agents.daemon.call("trust/grant", folder=str(agents.folder))
    made = agents.daemon.call("session/create", cwd=str(agents.folder), trust=True)
    parent = agents.load(SessionId(made["id"]))
    agent = Agents(agents.daemon, agents.folder, parent).start_isolated()
    agents.finish(agent)
    assert told.read_text().split() == ["create", "remove"]
    write_settings(agents.folder, OSTLER_SETTINGS, declare_hook("WorktreeCreate", "echo no >&2; exit 2"))
    agents.daemon.call("trust/grant", folder=str(agents.folder))
    made = agents.daemon.call("session/create", cwd=str(agents.folder), trust=True)
    with pytest.raises(WorktreeRefused, match=r"a hook refuses it\. no"):
        Agents(agents.daemon, agents.folder, agents.load(SessionId(made["id"]))).start_isolated()


def test_what_was_half_made_for_an_agent_is_taken_back(agents: Agents) -> None:
    agent = new_session_id()
    made = create_worktree(str(agents.folder), None, agent, 0o022)

    async def recover() -> None:
        await take_back(str(agents.folder), agent, 0o022)

    agents.daemon.run_on_loop(recover)
    assert not Path(made.path).exists()
    assert list_branches(agents.folder) == ["main"]


def test_a_session_without_a_worktree_has_none_to_finish(agents: Agents) -> None:
    assert agents.finish(agents.parent) is None
    assert isinstance(agents.parent.record, SessionRecord)
