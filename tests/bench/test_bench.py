"""Tests of the bench: every measure runs, at a size at which its numbers mean nothing."""

import json

import pytest

from tests.bench.homes import Homes
from tests.bench.measures import MEASURES
from tests.bench.processes import Bench
from tests.bench.sizes import TINY
from tests.bench.table import Row, render_table


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """One for all measures, so that the bytecode is compiled once."""
    folder = tmp_path_factory.mktemp("bench")
    return Bench(folder, TINY, Homes(folder))


@pytest.mark.bench
@pytest.mark.parametrize("name", MEASURES)
def test_measure_gives_numbers_of_ours_and_of_a_floor(name: str, bench: Bench) -> None:
    rows = MEASURES[name](bench)
    assert rows
    table = render_table(rows)
    for row in rows:
        assert row.measure in table
        # Memory may stay as it was, or shrink; everything else takes some time.
        assert row.unit in {"MB", "KB", "µs"} or (row.ours > 0 and row.floor > 0), row
        json.dumps(row.as_json())


def test_ratio_is_a_cost_whichever_way_is_better() -> None:
    assert Row("slower", "ms", ours=30, floor=10).ratio == 3
    assert Row("fewer", "/s", ours=10, floor=30, more_is_better=True).ratio == 3


def test_aim_is_met_on_the_side_where_it_is_better() -> None:
    assert Row("fast enough", "ms", ours=30, floor=10, aim=30).met
    assert not Row("too few", "/s", ours=10, floor=30, aim=20, more_is_better=True).met
    assert Row("no aim", "ms", ours=30, floor=10).met is None
