"""The image, as far as it can be tried where no container engine runs: its context, its packages, its health check."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.daemon import Daemon
from tests.support.repository import ROOT

ROOMS = ("protocol", "storage", "tools", "server", "clients")


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, in order."""
    text = re.sub(r"\\\n", " ", (ROOT / "docker" / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def list_copied_names(steps: list[tuple[str, str]]) -> list[str]:
    return [name for word, rest in steps if word == "COPY" and "--from" not in rest for name in rest.split()[:-1]]


@pytest.mark.without_daemon
def test_the_build_gets_what_it_copies_and_makes_a_whole_wheel_of_it(
    steps: list[tuple[str, str]], tmp_path: Path
) -> None:
    copied = list_copied_names(steps)
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    assert [line for line in ignored if line and line[0] not in "#!"] == ["*", "**/__pycache__"]
    assert sorted(line[1:] for line in ignored if line.startswith("!")) == sorted(copied)
    for name in copied:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", "dist"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    files = {path.relative_to(tmp_path / room) for room in ROOMS for path in (tmp_path / room).rglob("*.*")}
    assert {str(file) for file in files if file.suffix} <= packed


@pytest.mark.without_daemon
def test_the_image_has_the_versions_that_are_tested(steps: list[tuple[str, str]]) -> None:
    (command,) = (rest for word, rest in steps if word == "RUN" and "pip install" in rest)
    words = shlex.split(command)
    assert words[words.index("--constraint") + 1] in list_copied_names(steps)
    pinned = {
        canonicalize_name(line.partition("==")[0])
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting = [Requirement(line) for line in project["dependencies"]]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        if (wanted.name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((wanted.name, frozenset(wanted.extras)))
        waiting += list_requirements(wanted)
    assert {canonicalize_name(name) for name, _ in seen} - pinned == set()
    assert len(seen) > len(project["dependencies"])


def list_requirements(package: Requirement) -> list[Requirement]:
    try:
        lines = [Requirement(line) for line in requires(package.name) or ()]
    except PackageNotFoundError:
        return []
    extras = [{"extra": extra} for extra in (*package.extras, "")]
    return [line for line in lines if line.marker is None or any(line.marker.evaluate(extra) for extra in extras)]


def test_the_health_check_asks_whether_the_daemon_is_ready(steps: list[tuple[str, str]], home: Path) -> None:
    values = dict(steps)
    assert values["WORKDIR"] == "/workspace"
    entry = json.loads(values["ENTRYPOINT"])
    assert entry[:2] == ["ostler", "serve"]
    port = entry[entry.index("--port") + 1]
    program, *arguments = json.loads(values["HEALTHCHECK"].partition("CMD ")[2])
    assert program == "python3"
    assert f":{port}/readyz" in arguments[-1]
    # As Compose passes them where they are not set.
    with Daemon(home, environment={"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": ""}) as daemon:
        assert daemon.call("server/info")["model"] == "rehearsal"
        check = [sys.executable, "-I", *(word.replace(port, str(daemon.port)) for word in arguments)]
        assert subprocess.run(check, check=False, timeout=30).returncode == 0
    gone = subprocess.run(check, check=False, timeout=30, capture_output=True, text=True)
    assert gone.returncode == 1
    assert "Connection refused" in gone.stderr


@pytest.mark.without_daemon
def test_compose_passes_the_address_of_the_model_and_leaves_time_to_stop() -> None:
    lines = [line.strip() for line in (ROOT / "docker" / "compose.yaml").read_text().splitlines()]
    assert "stop_grace_period: 10s" in lines
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        assert f"{name}: ${{{name}:-}}" in lines
