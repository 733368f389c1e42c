"""Which calls of a message may run at once: safe ones together, unsafe ones alone, in their order."""

from hypothesis import given
from hypothesis import strategies as st

from ostler.server.engine.calls.concurrency import CallConcurrency, CallState, Slot


def start_ready(concurrency: CallConcurrency) -> list[int]:
    return [slot.index for slot in concurrency.take_ready()]


def make_concurrency(safe: list[bool], limit: int = 10) -> tuple[CallConcurrency, list[Slot]]:
    concurrency = CallConcurrency(limit)
    return concurrency, [concurrency.add(each) for each in safe]


def test_safe_calls_start_together() -> None:
    concurrency, _ = make_concurrency([True, True, True])
    assert start_ready(concurrency) == [0, 1, 2]


def test_an_unsafe_call_starts_alone() -> None:
    concurrency, slots = make_concurrency([False, False])
    assert start_ready(concurrency) == [0]
    assert start_ready(concurrency) == []
    slots[0].state = CallState.DONE
    assert start_ready(concurrency) == [1]


def test_an_unsafe_call_that_waits_holds_back_all_behind_it() -> None:
    concurrency, slots = make_concurrency([True, False, True])
    assert start_ready(concurrency) == [0]
    slots[0].state = CallState.DONE
    assert start_ready(concurrency) == [1]
    slots[1].state = CallState.DONE
    assert start_ready(concurrency) == [2]


def test_no_more_than_the_limit_run_at_once() -> None:
    concurrency, slots = make_concurrency([True] * 5, limit=2)
    assert start_ready(concurrency) == [0, 1]
    slots[1].state = CallState.DONE
    assert start_ready(concurrency) == [2]


def test_a_call_that_comes_later_takes_its_place_at_the_end() -> None:
    concurrency, _ = make_concurrency([False])
    assert start_ready(concurrency) == [0]
    concurrency.add(True)
    assert start_ready(concurrency) == []
    assert not concurrency.done


def test_an_empty_schedule_is_done() -> None:
    assert CallConcurrency(10).done


def test_of_two_calls_that_turned_unsafe_the_earlier_goes_first() -> None:
    concurrency, slots = make_concurrency([True, True, True])
    concurrency.take_ready()
    for slot in slots[:2]:
        slot.safe, slot.waits_alone = False, True
    assert [concurrency.may_go_on(slot) for slot in slots[:2]] == [False, False]
    slots[2].state = CallState.DONE
    assert [concurrency.may_go_on(slot) for slot in slots[:2]] == [True, False]
    slots[0].state = CallState.DONE
    assert concurrency.may_go_on(slots[1])


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 4), st.randoms(use_true_random=False))
def test_every_call_runs_once_and_never_beside_one_that_it_must_not(
    safe: list[bool], limit: int, random: object
) -> None:
    concurrency, slots = make_concurrency(safe, limit)
    order: list[int] = []
    while not concurrency.done:
        order += start_ready(concurrency)
        running = [slot for slot in slots if slot.state is CallState.RUNNING]
        assert running, "nothing runs and nothing can start"
        assert len(running) <= limit
        assert len(running) == 1 or all(slot.safe for slot in running)
        running[random.randrange(len(running))].state = CallState.DONE  # type: ignore[attr-defined]
    assert order == list(range(len(safe)))


def test_what_was_dropped_while_it_waited_is_passed_over() -> None:
    concurrency, slots = make_concurrency([False, True, True, False])
    assert start_ready(concurrency) == [0]
    slots[1].state = CallState.DONE
    assert start_ready(concurrency) == []
    slots[0].state = CallState.DONE
    assert start_ready(concurrency) == [2]
    assert [slot.index for slot in concurrency.running] == [2]
    slots[2].state = CallState.DONE
    assert start_ready(concurrency) == [3]
    assert not concurrency.done
    slots[3].state = CallState.DONE
    assert concurrency.done
    concurrency.add(True)
    assert not concurrency.done
    assert start_ready(concurrency) == [4]


@given(st.lists(st.tuples(st.sampled_from(["add", "add safe", "take", "end", "drop"]), st.integers(0, 9)), max_size=40))
def test_it_says_what_a_walk_through_all_calls_would_say(steps: list[tuple[str, int]]) -> None:
    concurrency = CallConcurrency(3)
    slots: list[Slot] = []
    for step, which in steps:
        waiting = [slot for slot in slots if slot.state is CallState.WAITING]
        running = [slot for slot in slots if slot.state is CallState.RUNNING]
        match step:
            case "add" | "add safe":
                slots.append(concurrency.add(step == "add safe"))
            case "take":
                expected: list[Slot] = []
                for slot in waiting:
                    active = [*running, *expected]
                    if len(active) >= 3 or (active and not (slot.safe and all(each.safe for each in active))):
                        break
                    expected.append(slot)
                assert concurrency.take_ready() == expected
            case "end" if running:
                running[which % len(running)].state = CallState.DONE
            case "drop" if waiting:
                waiting[which % len(waiting)].state = CallState.DONE
        assert concurrency.done == all(slot.state is CallState.DONE for slot in slots)
        assert concurrency.running == [slot for slot in slots if slot.state is CallState.RUNNING]
