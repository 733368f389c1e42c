"""Tests of the comparison of two trees."""

from tests.bench.compare import Compared, render


def test_slower_is_slower_whichever_way_is_better() -> None:
    assert round(Compared("trip", "ms", more_is_better=False, old=[9, 10, 99], new=[11]).slower_percent) == 10
    assert round(Compared("trip", "ms", more_is_better=False, old=[10], new=[9]).slower_percent) == -10
    assert round(Compared("rate", "/s", more_is_better=True, old=[100], new=[80]).slower_percent) == 25


def test_a_row_that_is_slower_than_allowed_is_marked() -> None:
    rows = [Compared("trip", "ms", False, [10], [11]), Compared("rate", "/s", True, [100], [99])]
    first, second = render(rows, 3, 5.0).splitlines()[1:]
    assert first.split() == ["trip", "10.00", "ms", "11.00", "ms", "+10.0%", "over"]
    assert second.split()[-1] == "+1.0%"
