"""When a key counts as the answer to an ask that has just come up."""

from dataclasses import dataclass

import pytest

from ostler.clients.cli.chat.ask_queue import TYPE_AHEAD_SECONDS, TypeAheadGuard


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def test_keys_count_only_after_an_ask_has_stood_there_for_a_moment() -> None:
    clock = Clock()
    guard = TypeAheadGuard(clock)
    guard.begin()
    assert guard.compute_remaining(pressed=0.0) == pytest.approx(TYPE_AHEAD_SECONDS)
    clock.now += TYPE_AHEAD_SECONDS
    assert guard.compute_remaining(pressed=0.0) == pytest.approx(0.0)


def test_whoever_types_on_has_not_read_it_yet() -> None:
    clock = Clock()
    guard = TypeAheadGuard(clock)
    guard.begin()
    clock.now += 10.0
    assert guard.compute_remaining(pressed=clock.now) == pytest.approx(TYPE_AHEAD_SECONDS)


def test_each_ask_has_a_moment_of_its_own() -> None:
    clock = Clock()
    guard = TypeAheadGuard(clock)
    guard.begin()
    clock.now += 5.0
    guard.begin()
    assert guard.compute_remaining(pressed=0.0) == pytest.approx(TYPE_AHEAD_SECONDS)
