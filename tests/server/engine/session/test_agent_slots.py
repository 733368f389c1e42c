"""The places for agents in one tree."""

import anyio
import pytest

from ostler.server.engine.session.agent_slots import AgentSlot, TreeSlots

pytestmark = pytest.mark.anyio


async def test_who_came_first_is_first_and_who_was_there_before_all() -> None:
    tree, order = TreeSlots(lambda: 1), list[str]()
    first, second, third = AgentSlot(tree), AgentSlot(tree), AgentSlot(tree)
    await first.take()
    answered = anyio.Event()

    async def work(name: str, slot: AgentSlot) -> None:
        await slot.take()
        order.append(name)
        if name == "second":
            answered.set()  # while the first one waits for it
            await anyio.wait_all_tasks_blocked()
        slot.end()

    async with anyio.create_task_group() as group:
        group.start_soon(work, "second", second)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(work, "third", third)
        await anyio.wait_all_tasks_blocked()
        assert order == []
        async with first.lend():
            await answered.wait()
        order.append("first again")
        first.end()
    assert order == ["second", "first again", "third"]
    assert tree.unused


async def test_one_that_gives_up_waiting_takes_no_place() -> None:
    tree = TreeSlots(lambda: 1)
    first, second = AgentSlot(tree), AgentSlot(tree)
    await first.take()
    with anyio.move_on_after(0):
        await second.take()
    first.end()
    assert tree.unused
    await second.take()
    assert tree.taken == 1


async def test_a_place_is_taken_again_only_when_nothing_is_waited_for_any_more() -> None:
    tree = TreeSlots(lambda: 1)
    slot = AgentSlot(tree)
    await slot.take()
    async with slot.lend():
        async with slot.lend():
            assert tree.taken == 0
        assert tree.taken == 0
    assert tree.taken == 1
