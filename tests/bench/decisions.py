"""How long permission takes: a decision, the settings read anew, and a command in the sandbox."""

import asyncio
import json
import os
import subprocess
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
from ostler.server.settings import RuleSet, SettingsPlaces, effective_rules, load_settings
from ostler.tools.commands.syntax.parser import forget
from ostler.tools.context import Surroundings
from ostler.tools.sandbox import Profile, confined, probe_sandbox, wrap
from ostler.tools.sandbox.probe import FLAGS
from ostler.tools.shell import bash_policy
from ostler.tools.shell.bash import Bash
from tests.bench.processes import Bench
from tests.bench.table import Row

_TYPICAL: Final = "git log --oneline -5 | head -3 && npm test -- --watch=false"
_LONG: Final = " && ".join(f"npm run build -- --part={number} --out=dist/{number}" for number in range(200))[:10_240]
_RULES: Final = 1_000
_SANDBOX_MS: Final = 3.0


def decisions(bench: Bench) -> list[Row]:
    folder = bench.folder / "judged"
    settings = _settings(folder)
    rounds = bench.sizes.decisions
    few, many = _rules(settings, 3), _rules(settings, _RULES)
    return [
        _decided("a typical command", _TYPICAL, few, 1.0, rounds, folder),
        _decided("a command of 10 KB", _LONG, few, 20.0, max(3, rounds // 10), folder),
        _decided("a typical command, 1,000 rules", _TYPICAL, many, 2.0, rounds, folder),
        _reload(settings, rounds),
        *_sandboxed(folder, rounds),
    ]


def _settings(folder: Path) -> SettingsPlaces:
    folder.mkdir(parents=True, exist_ok=True)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return SettingsPlaces(str(home), str(home), str(folder / "no-policy.json"))


def _rules(places: SettingsPlaces, count: int) -> RuleSet:
    lists = {
        "allow": [f"Bash(make target{number}:*)" for number in range(count // 3)],
        "deny": [f"Read(secret{number}/**)" for number in range(count // 3)],
        "ask": [f"Bash(rm -rf part{number})" for number in range(count // 3)],
    }
    Path(places.home, "settings.json").write_text(json.dumps({"permissions": lists}))
    return effective_rules(load_settings(str(Path(places.home).parent), places), trusted=True)


def _decided(name: str, command: str, rules: RuleSet, aim: float, rounds: int, folder: Path) -> Row:
    tool = Bash()
    given = tool.parse({"command": command})
    surroundings = Surroundings(SessionId("s_bench"), str(folder), str(folder), (str(folder),), "default")
    context = PermissionContext("default", "ask", rules, surroundings)

    async def once() -> None:
        # As for a command that was never seen before: nothing is remembered of it.
        forget()
        judged = bash_policy.judge(command, surroundings)
        subject = bash_policy.subject(command, str(folder))
        await decide(Case(tool, given, judged.check, subject), context)

    parser = Parser(Language(tree_sitter_bash.language()))
    loop = asyncio.new_event_loop()
    try:
        ours = _timed(lambda: loop.run_until_complete(once()), rounds)
    finally:
        loop.close()
    floor = _timed(lambda: parser.parse(command.encode()), rounds)
    return Row(f"decision, {name}", "ms", median(ours), median(floor), aim, samples=ours)


def _reload(places: SettingsPlaces, rounds: int) -> Row:
    folder = str(Path(places.home).parent)
    file = Path(places.home, "settings.json")
    ours = _timed(lambda: load_settings(folder, places), rounds)
    floor = _timed(lambda: json.loads(file.read_bytes()), rounds)
    return Row("settings of 1,000 rules, read anew", "ms", median(ours), median(floor), 50.0, samples=ours)


def _sandboxed(folder: Path, rounds: int) -> list[Row]:
    support = probe_sandbox()
    if not support.works or support.bwrap is None:
        return []
    environment = confined(os.environ)
    bare = [support.bwrap, *FLAGS, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "/bin/true"]
    profile = Profile("read_only", (str(folder.resolve()),), str(folder.resolve()))
    # As Bash has it, whose own shell is the first process in there.
    ours = wrap(["/bin/true"], profile, support, stays=True)
    samples: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(rounds):
        for name, arguments in (("ours", ours), ("bare", bare)):
            samples[name] += _timed(partial(_run, arguments, environment), 1)
    floor = median(samples["bare"])
    row = Row(
        "`true` in the read-only sandbox", "ms", median(samples["ours"]), floor, floor + _SANDBOX_MS,
        samples=samples["ours"],
    )  # fmt: skip
    return [row]


def _run(arguments: list[str], environment: dict[str, str]) -> None:
    subprocess.run(arguments, env=environment, check=True)


def _timed(work: Callable[[], object], rounds: int) -> list[float]:
    """Milliseconds of each round, after one that does not count."""
    work()
    found: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        found.append((time.perf_counter() - began) * 1000)
    return found
