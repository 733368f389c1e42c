"""Metrics: plain counters while the daemon works, in the Prometheus format only when somebody asks."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from ostler.protocol.shapes import Decision
from ostler.storage.repositories.events import LoggedEvent

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
    """Tool calls by tool and outcome, how long each of their steps took, and who decided about them."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str], int] = {}
        self.decisions: dict[tuple[str, str, str], int] = {}
        """By behavior, by what decided, and by the source of the rule where one did."""
        self.cancelled = 0
        self.steps: dict[tuple[str, str], _Durations] = {}

    def note(self, tool: str, outcome: str, taken: Mapping[str, float]) -> None:
        """A call that has ended; `taken` is seconds by step."""
        self.outcomes[tool, outcome] = self.outcomes.get((tool, outcome), 0) + 1
        for step, seconds in taken.items():
            durations = self.steps.get((tool, step))
            if durations is None:
                durations = self.steps[tool, step] = _Durations()
            durations.note(seconds)

    def note_decision(self, decision: Decision) -> None:
        # Of other decisions the source is a client, a hook or a model: each would be a metric of its own.
        rule_source = decision.source or "" if decision.by == "rule" else ""
        key = (decision.behavior, decision.by, rule_source)
        self.decisions[key] = self.decisions.get(key, 0) + 1


class EventCounts:
    """What is counted by the events that tell of it: cancellations, and what was done with git."""

    def __init__(self) -> None:
        self.cancelled: dict[str, int] = {}
        self.git: dict[tuple[str, str], int] = {}
        """By what was changed, and how."""

    def on_event(self, event: LoggedEvent) -> None:
        """Counts an event of the log; of most kinds, nothing."""
        match event.type:
            case "turn.ended":
                self._note_end("turn", orjson.loads(event.data)["turn"]["reason"], "interrupted")
            case "ask.resolved":
                self._note_end("ask", orjson.loads(event.data)["ask"]["status"], "cancelled")
            case "task.ended":
                self._note_end("task", orjson.loads(event.data)["task"]["status"], "killed")
            case "git.changed":
                self._note_git(orjson.loads(event.data))

    def _note_end(self, what: str, ended: str, cancelled: str) -> None:
        if ended == cancelled:
            self.cancelled[what] = self.cancelled.get(what, 0) + 1

    def _note_git(self, changed: Mapping[str, Any]) -> None:
        for what, how in (("commit", "kind"), ("push", None), ("branch", "action"), ("pr", "action")):
            if (found := changed.get(what)) is not None:
                key = (what, found[how] if how else "pushed")
                self.git[key] = self.git.get(key, 0) + 1


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
    events: EventCounts
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
        decided = CounterMetricFamily(
            "ostler_decisions", "Decisions about tool calls.", labels=["behavior", "source", "rule_source"]
        )
        for facts, count in sorted(self.tools.decisions.items()):
            decided.add_metric(facts, count)
        yield decided
        cancelled = CounterMetricFamily("ostler_cancellations", "What was stopped before its end.", labels=["what"])
        for what in ("turn", "call", "ask", "task"):
            stopped = self.tools.cancelled if what == "call" else self.events.cancelled.get(what, 0)
            cancelled.add_metric([what], stopped)
        yield cancelled
        git = CounterMetricFamily("ostler_git_operations", "What commands did with git.", labels=["what", "action"])
        for names, count in sorted(self.events.git.items()):
            git.add_metric(names, count)
        yield git


def _accumulate_buckets(durations: _Durations) -> list[tuple[str, float]]:
    rows: list[tuple[str, float]] = []
    running = 0
    for bound, count in zip([*map(str, BUCKETS), "+Inf"], durations.buckets, strict=True):
        running += count
        rows.append((bound, float(running)))
    return rows
