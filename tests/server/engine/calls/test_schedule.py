"""Which calls may start: the order of a message against the safety of its calls."""

from hypothesis import given
from hypothesis import strategies as st

from ostler.server.engine.calls.schedule import Schedule, Slot, Stage


def started(schedule: Schedule) -> list[int]:
    return [slot.place for slot in schedule.take()]


def made(safe: list[bool], limit: int = 10) -> tuple[Schedule, list[Slot]]:
    schedule = Schedule(limit)
    return schedule, [schedule.add(each) for each in safe]


def test_safe_calls_start_together() -> None:
    schedule, _ = made([True, True, True])
    assert started(schedule) == [0, 1, 2]


def test_an_unsafe_call_starts_alone() -> None:
    schedule, slots = made([False, False])
    assert started(schedule) == [0]
    assert started(schedule) == []
    slots[0].stage = Stage.DONE
    assert started(schedule) == [1]


def test_an_unsafe_call_that_waits_holds_back_all_behind_it() -> None:
    schedule, slots = made([True, False, True])
    assert started(schedule) == [0]
    slots[0].stage = Stage.DONE
    assert started(schedule) == [1]
    slots[1].stage = Stage.DONE
    assert started(schedule) == [2]


def test_no_more_than_the_limit_run_at_once() -> None:
    schedule, slots = made([True] * 5, limit=2)
    assert started(schedule) == [0, 1]
    slots[1].stage = Stage.DONE
    assert started(schedule) == [2]


def test_a_call_that_comes_later_takes_its_place_at_the_end() -> None:
    schedule, _ = made([False])
    assert started(schedule) == [0]
    schedule.add(True)
    assert started(schedule) == []
    assert not schedule.done


def test_an_empty_schedule_is_done() -> None:
    assert Schedule(10).done


def test_of_two_calls_that_turned_unsafe_the_earlier_goes_first() -> None:
    schedule, slots = made([True, True, True])
    schedule.take()
    for slot in slots[:2]:
        slot.safe, slot.alone = False, True
    assert [schedule.may_go_on(slot) for slot in slots[:2]] == [False, False]
    slots[2].stage = Stage.DONE
    assert [schedule.may_go_on(slot) for slot in slots[:2]] == [True, False]
    slots[0].stage = Stage.DONE
    assert schedule.may_go_on(slots[1])


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 4), st.randoms(use_true_random=False))
def test_every_call_runs_once_and_never_beside_one_that_it_must_not(
    safe: list[bool], limit: int, random: object
) -> None:
    schedule, slots = made(safe, limit)
    order: list[int] = []
    while not schedule.done:
        order += started(schedule)
        running = [slot for slot in slots if slot.stage is Stage.RUNNING]
        assert running, "nothing runs and nothing can start"
        assert len(running) <= limit
        assert len(running) == 1 or all(slot.safe for slot in running)
        running[random.randrange(len(running))].stage = Stage.DONE  # type: ignore[attr-defined]
    assert order == list(range(len(safe)))


def test_what_was_dropped_while_it_waited_is_passed_over() -> None:
    schedule, slots = made([False, True, True, False])
    assert started(schedule) == [0]
    slots[1].stage = Stage.DONE
    assert started(schedule) == []
    slots[0].stage = Stage.DONE
    assert started(schedule) == [2]
    assert [slot.place for slot in schedule.running] == [2]
    slots[2].stage = Stage.DONE
    assert started(schedule) == [3]
    assert not schedule.done
    slots[3].stage = Stage.DONE
    assert schedule.done
    schedule.add(True)
    assert not schedule.done
    assert started(schedule) == [4]


@given(st.lists(st.tuples(st.sampled_from(["add", "add safe", "take", "end", "drop"]), st.integers(0, 9)), max_size=40))
def test_it_says_what_a_walk_through_all_calls_would_say(steps: list[tuple[str, int]]) -> None:
    schedule = Schedule(3)
    slots: list[Slot] = []
    for step, which in steps:
        waiting = [slot for slot in slots if slot.stage is Stage.WAITING]
        running = [slot for slot in slots if slot.stage is Stage.RUNNING]
        match step:
            case "add" | "add safe":
                slots.append(schedule.add(step == "add safe"))
            case "take":
                expected: list[Slot] = []
                for slot in waiting:
                    beside = [*running, *expected]
                    if len(beside) >= 3 or (beside and not (slot.safe and all(each.safe for each in beside))):
                        break
                    expected.append(slot)
                assert schedule.take() == expected
            case "end" if running:
                running[which % len(running)].stage = Stage.DONE
            case "drop" if waiting:
                waiting[which % len(waiting)].stage = Stage.DONE
        assert schedule.done == all(slot.stage is Stage.DONE for slot in slots)
        assert schedule.running == [slot for slot in slots if slot.stage is Stage.RUNNING]
