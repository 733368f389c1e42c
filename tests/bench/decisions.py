"""Measures permissions: a decision about a command, a reload of the settings, and a command in the sandbox."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Parser

from ostler.protocol.ids import SessionId
from ostler.server.engine.permissions.decide import Case, PermissionContext, decide
from ostler.server.settings import RuleSet, SettingsPlaces, load_settings, resolve_rules
from ostler.tools.commands.syntax.parser import clear_cache
from ostler.tools.context import SessionView
from ostler.tools.sandbox import Profile, confine_environment, find_filter, probe_sandbox, wrap
from ostler.tools.sandbox.kernel.seccomp import FILTER_DESCRIPTOR
from ostler.tools.sandbox.probe import FLAGS
from ostler.tools.shell import bash_policy
from ostler.tools.shell.bash import Bash
from tests.bench.processes import Bench
from tests.bench.table import Row

_TYPICAL_COMMAND: Final = "git log --oneline -5 | head -3 && npm test -- --watch=false"
_LONG_COMMAND: Final = " && ".join(f"npm run build -- --part={number} --out=dist/{number}" for number in range(200))[
    :10_240
]
_RULE_COUNT: Final = 1_000
_SANDBOX_MS: Final = 3.0


def measure_decisions(bench: Bench) -> list[Row]:
    folder = bench.folder / "judged"
    settings = _make_settings_places(folder)
    rounds = bench.sizes.decisions
    few, many = _load_rules(settings, 3), _load_rules(settings, _RULE_COUNT)
    return [
        _measure_decision("a typical command", _TYPICAL_COMMAND, few, 1.0, rounds, folder),
        _measure_decision("a command of 10 KB", _LONG_COMMAND, few, 20.0, max(3, rounds // 10), folder),
        _measure_decision("a typical command, 1,000 rules", _TYPICAL_COMMAND, many, 2.0, rounds, folder),
        _measure_reload(settings, rounds),
        *_measure_sandbox(folder, rounds),
    ]


def _make_settings_places(folder: Path) -> SettingsPlaces:
    folder.mkdir(parents=True, exist_ok=True)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return SettingsPlaces(str(home), str(home), str(folder / "no-policy.json"))


def _load_rules(places: SettingsPlaces, count: int) -> RuleSet:
    lists = {
        "allow": [f"Bash(make target{number}:*)" for number in range(count // 3)],
        "deny": [f"Read(secret{number}/**)" for number in range(count // 3)],
        "ask": [f"Bash(rm -rf part{number})" for number in range(count // 3)],
    }
    Path(places.home, "settings.json").write_text(json.dumps({"permissions": lists}))
    return resolve_rules(load_settings(str(Path(places.home).parent), places), trusted=True)


def _measure_decision(name: str, command: str, rules: RuleSet, aim: float, rounds: int, folder: Path) -> Row:
    tool = Bash()
    tool_input = tool.parse({"command": command})
    view = SessionView(SessionId("s_bench"), str(folder), str(folder), (str(folder),), "default")
    context = PermissionContext("default", "ask", rules, view)

    async def once() -> None:
        # As for a command that was never seen before: nothing of it is in the cache.
        clear_cache()
        judgement = bash_policy.judge(command, view)
        subject = bash_policy.find_subject(command, str(folder))
        await decide(Case(tool, tool_input, judgement.check, subject), context)

    parser = Parser(Language(tree_sitter_bash.language()))
    loop = asyncio.new_event_loop()
    try:
        ours = _time_rounds(lambda: loop.run_until_complete(once()), rounds)
    finally:
        loop.close()
    floor = _time_rounds(lambda: parser.parse(command.encode()), rounds)
    return Row(f"decision, {name}", "ms", median(ours), median(floor), aim, samples=ours)


def _measure_reload(places: SettingsPlaces, rounds: int) -> Row:
    folder = str(Path(places.home).parent)
    file = Path(places.home, "settings.json")
    ours = _time_rounds(lambda: load_settings(folder, places), rounds)
    floor = _time_rounds(lambda: json.loads(file.read_bytes()), rounds)
    return Row("settings of 1,000 rules, read anew", "ms", median(ours), median(floor), 50.0, samples=ours)


def _measure_sandbox(folder: Path, rounds: int) -> list[Row]:
    support = probe_sandbox()
    if not support.works or support.bwrap is None:
        return []
    environment = confine_environment(os.environ)
    bare = [support.bwrap, *FLAGS, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "/bin/true"]
    profile = Profile("read_only", (str(folder.resolve()),), str(folder.resolve()))
    # As the Bash tool calls it: its own shell is the first process in the sandbox.
    ours = wrap(["/bin/true"], profile, support, filter_descriptor=FILTER_DESCRIPTOR, stays=True)
    samples: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(rounds):
        for name, arguments in (("ours", ours), ("bare", bare)):
            given = find_filter(profile, support) if name == "ours" else None
            samples[name] += _time_rounds(partial(_run, arguments, environment, given), 1)
    floor = median(samples["bare"])
    row = Row(
        "`true` in the read-only sandbox", "ms", median(samples["ours"]), floor, floor + _SANDBOX_MS,
        samples=samples["ours"],
    )  # fmt: skip
    return [row]


def _run(arguments: list[str], environment: dict[str, str], given: str | None) -> None:
    # As the daemon starts it.
    actions = [(os.POSIX_SPAWN_OPEN, FILTER_DESCRIPTOR, given, os.O_RDONLY, 0)] if given is not None else []
    pid = os.posix_spawn(arguments[0], arguments, environment, file_actions=actions)
    assert os.waitpid(pid, 0)[1] == 0


def _time_rounds(work: Callable[[], object], rounds: int) -> list[float]:
    """Milliseconds of each round, after one that does not count."""
    work()
    samples: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        samples.append((time.perf_counter() - began) * 1000)
    return samples
