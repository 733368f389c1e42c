"""Tests of the bench: every measure runs, at a size at which its numbers mean nothing."""

import json

import pytest

from tests.bench.homes import Homes
from tests.bench.measures import MEASURES
from tests.bench.processes import Bench
from tests.bench.sizes import TINY
from tests.bench.table import render_table

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """One for all measures, so that the bytecode is compiled once."""
    folder = tmp_path_factory.mktemp("bench")
    return Bench(folder, TINY, Homes(folder))


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
