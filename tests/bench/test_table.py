"""Tests of the rows of the bench's table."""

from tests.bench.table import Row


def test_ratio_is_a_cost_whichever_way_is_better() -> None:
    assert Row("slower", "ms", ours=30, floor=10).ratio == 3
    assert Row("fewer", "/s", ours=10, floor=30, more_is_better=True).ratio == 3


def test_aim_is_met_on_the_side_where_it_is_better() -> None:
    assert Row("fast enough", "ms", ours=30, floor=10, aim=30).met
    assert not Row("too few", "/s", ours=10, floor=30, aim=20, more_is_better=True).met
    assert Row("no aim", "ms", ours=30, floor=10).met is None
