"""Metrics: plain counters while the daemon works, in the Prometheus format only when somebody asks."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(slots=True)
class _Durations:
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def note(self, seconds: float) -> None:
        self.total += seconds
        self.buckets[bisect_left(BUCKETS, seconds)] += 1


class CallCounts:
    """Calls by method and outcome; names that are not methods are counted as one."""

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self.outcomes: dict[tuple[str, str], int] = {}
        self.durations: dict[str, _Durations] = {}
        self.total = 0

    def note(self, method: str, outcome: str, seconds: float) -> None:
        name = method if method in self._known else "unknown"
        self.total += 1
        self.outcomes[name, outcome] = self.outcomes.get((name, outcome), 0) + 1
        self.durations.setdefault(name, _Durations()).note(seconds)


class ToolCounts:
    """Tool calls by tool and outcome, and how long each of their steps took."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str], int] = {}
        self.steps: dict[tuple[str, str], _Durations] = {}

    def note(self, tool: str, outcome: str, taken: Mapping[str, float]) -> None:
        """A call that has ended; `taken` is seconds by step."""
        self.outcomes[tool, outcome] = self.outcomes.get((tool, outcome), 0) + 1
        for step, seconds in taken.items():
            durations = self.steps.get((tool, step))
            if durations is None:
                durations = self.steps[tool, step] = _Durations()
            durations.note(seconds)


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number that is read when the metrics are rendered."""

    name: str
    help: str
    read: Callable[[], float]
    counter: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Metrics:
    """All that `/metrics` shows."""

    calls: CallCounts
    tools: ToolCounts
    gauges: list[Gauge]

    def render(self) -> tuple[bytes, str]:
        # Imported here: most daemons are never scraped, and the library takes its time to load.
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest  # noqa: PLC0415
        from prometheus_client.process_collector import ProcessCollector  # noqa: PLC0415

        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        return generate_latest(registry), CONTENT_TYPE_LATEST

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import (  # noqa: PLC0415 - as above
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        for gauge in self.gauges:
            family = CounterMetricFamily if gauge.counter else GaugeMetricFamily
            yield family(gauge.name, gauge.help, value=gauge.read())
        calls = CounterMetricFamily("ostler_calls", "Calls answered.", labels=["method", "outcome"])
        for names, count in sorted(self.calls.outcomes.items()):
            calls.add_metric(names, count)
        yield calls
        seconds = HistogramMetricFamily("ostler_call_seconds", "How long calls took.", labels=["method"])
        for method, durations in sorted(self.calls.durations.items()):
            seconds.add_metric([method], _accumulate_buckets(durations), durations.total)
        yield seconds
        ended = CounterMetricFamily("ostler_tool_calls", "Tool calls that ended.", labels=["tool", "outcome"])
        for names, count in sorted(self.tools.outcomes.items()):
            ended.add_metric(names, count)
        yield ended
        steps = HistogramMetricFamily(
            "ostler_tool_step_seconds", "How long each step of a tool call took.", labels=["tool", "step"]
        )
        for names, durations in sorted(self.tools.steps.items()):
            steps.add_metric(names, _accumulate_buckets(durations), durations.total)
        yield steps


def _accumulate_buckets(durations: _Durations) -> list[tuple[str, float]]:
    rows: list[tuple[str, float]] = []
    running = 0
    for bound, count in zip([*map(str, BUCKETS), "+Inf"], durations.buckets, strict=True):
        running += count
        rows.append((bound, float(running)))
    return rows
