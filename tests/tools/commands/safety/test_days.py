"""Days of several developers, without changes: how much of them is asked about.

The lists are as somebody would type them, and some of it has to be asked about: code of the project (`make -n`),
files outside of it, expansions, loops, sockets.
"""

import gzip
import io
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from ostler.protocol.ids import SessionId
from ostler.tools.context import SessionView
from ostler.tools.shell.bash_policy import judge
from ostler.tools.tool import Allow

DAYS: Final = Path(__file__).with_name("days")

WEB: Final = {
    "package.json": '{"name": "shop", "version": "1.0.0", "scripts": {"dev": "vite"}, "dependencies": {}}',
    "package-lock.json": "{}", "tsconfig.json": "{}", ".gitignore": "node_modules\ndist\n.env\n", ".env": "A=1\n",
    ".env.example": "A=\n", "README.md": "# Shop\n", "src/index.js": "import App from './app'\n",
    "src/app.js": "export default function App() {}\n", "src/app.test.js": "test()\n", "src/style.css": "a {}\n",
    "src/components/Button.js": "export {}\n", "public/logo.png": "\x00PNG", "dist/bundle.js": "x",
    "dist/bundle.css": "y", "node_modules/react/package.json": "{}", "node_modules/lodash/index.js": "\n",
    "logs/server.log": "error\n", "logs/access.log": "1.1.1.1 - GET /\n", "data/users.json": "[]",
    "data/users.csv": "a,b\n", "data/words.txt": "a\n", "data/old_words.txt": "b\n",
}  # fmt: skip
DATA: Final = {
    "pyproject.toml": "[project]\nname = 'study'\n", "requirements.txt": "numpy\npandas\n",
    "setup.cfg": "[metadata]\n", "README.md": "# Study\n", "config.yaml": "a: 1\n",
    ".gitignore": "data/big.parquet\n", "src/pipeline/load.py": "import pandas\n", "src/pipeline/__init__.py": "",
    "tests/test_load.py": "def test_load(): pass\n", "notebooks/explore.ipynb": '{"cells": []}',
    "data/train.csv": "id,kind,value\n1,a,3\n", "data/labels.csv": "id,label\n", "data/values.txt": "1 2 3\n",
    "data/a.txt": "a\n", "data/b.txt": "b\n", "data/meta.json": "{}", "data/events.jsonl": "{}\n",
    "data/SHA256SUMS": "0  train.csv\n", "data/big.parquet": "x",
}  # fmt: skip
SYSTEMS: Final = {
    "Makefile": "all:\n\tcc\n", "Cargo.toml": "[package]\n", "Cargo.lock": "", "go.mod": "module x\n",
    "CMakeLists.txt": "project(x)\n", "README": "x\n", "config.txt": "a b\n", "src/main.c": "int main() {}\n",
    "src/parser.c": "int parse() {}\n", "include/node.h": "struct node;\n", "old_src/main.c": "int main() {}\n",
    "rust/main.rs": "fn main() {}\n", "go/main.go": "package main\n", "build/app": "\x7fELF", "build/main.o": "o",
    "build/parser.o": "o", "build/libx.so": "so", "build/libx.a": "!<arch>\n", "build/build.log": "warning: x\n",
    "scripts/run.sh": "ls\n", "target/debug/app": "x", "data.xz": "x",
}  # fmt: skip

MIXED: Final = {
    **WEB, **DATA, **SYSTEMS, "src/app.py": "def main():\n  pass\n", "CHANGELOG.md": "x", "data.json": "{}",
    "data.csv": "a\n", "logs/app.log": "E\n", "old.py": "", "new.py": "", "a.txt": "", "b.txt": "", "config.ini": "",
    "numbers.txt": "1\n", "data.txt": "1\n", "data.bin": "x", "dist/app": "x", "libfoo.so": "x", "app.o": "x",
    "cert.pem": "x", "app.db": "x", "hosts.txt": "a\n", "bin/run": "x", "lib/x.py": "", "build/x.o": "",
    "checksums.md5": f"{'0' * 32}  a.txt\n", "SHA256SUMS": f"{'0' * 64}  a.txt\n",
}  # fmt: skip


def build_project(folder: Path, files: Mapping[str, str]) -> Path:
    """A repository with two commits, a tag and a branch, packed files and logs."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "data").mkdir(exist_ok=True)
    for name in ("data/old.csv.gz", "build/old.log.gz"):
        if (folder / name).parent.exists():
            (folder / name).write_bytes(gzip.compress(b"a,b\n"))
    for name in ("archive.tgz", "release.tar.gz", "data/backup.tar.gz"):
        with tarfile.open(folder / name, "w:gz") as archive:
            archive.addfile(tarfile.TarInfo("x.c"), io.BytesIO())
    for name in ("assets.zip", "data/images.zip"):
        with zipfile.ZipFile(folder / name, "w") as packed:
            packed.writestr("x", "x")
    run_git(folder, "init", "-q", "-b", "main")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-q", "-m", "first")
    run_git(folder, "tag", "v0.1")
    run_git(folder, "branch", "feature/login")
    run_git(folder, "remote", "add", "origin", "https://example.com/x.git")
    run_git(folder, "commit", "-q", "--allow-empty", "-m", "second")
    return folder


def run_git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def list_asked(commands: Sequence[str], project: Path) -> dict[str, str]:
    """What of it is asked about, and why."""
    home = f"{project}-daemon"
    asked: dict[str, str] = {}
    for command in commands:
        view = SessionView(SessionId("s_1"), str(project), str(project), (str(project),), "default", home=home)
        judged = judge(command, view)
        if not isinstance(judged.check, Allow):
            asked[command] = getattr(judged.check, "reason", "")
    return asked


def read_day(name: str) -> list[str]:
    """The commands of a day, one in a line; the sign `↵` stands for a newline in one."""
    return [line.replace("↵", "\n") for line in (DAYS / f"{name}.txt").read_text("utf-8").splitlines()]


MOST_ASKED: Final = {"web": 5, "data": 9, "systems": 19, "mixed": 15, "trades": 11}
"""All five have been seen by now: each showed what was missing. Before loops, conditions and substitutions were written
anew, 9, 15, 19, 20 and 33 of them were asked about.
"""


@pytest.mark.parametrize(
    ("day", "files"), [("web", WEB), ("data", DATA), ("systems", SYSTEMS), ("mixed", MIXED), ("trades", MIXED)]
)
def test_little_of_a_day_without_changes_is_asked_about(day: str, files: Mapping[str, str], tmp_path: Path) -> None:
    commands = read_day(day)
    assert len(commands) >= 157
    asked = list_asked(commands, build_project(tmp_path, files))
    assert len(asked) <= MOST_ASKED[day], asked
