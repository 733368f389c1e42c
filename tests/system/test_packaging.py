"""A wheel holds all of the product: every package, and the files that are no Python."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.repository import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_a_wheel_holds_every_file_of_every_room(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    for package in ("protocol", "storage", "tools", "server", "clients"):
        for path in (ROOT / package / "ostler").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert str(path.relative_to(ROOT / package)) in packed
    assert "ostler/__init__.py" not in packed  # the packages are portions of one namespace


def test_a_daemon_runs_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """Imported from the zip's content and not from this checkout."""
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    code = (
        "import ostler.server, sys; from pathlib import Path\n"
        "from ostler.storage.sqlite.database import open_database\n"
        "import ostler.protocol.generate.reference as reference\n"
        "opened = open_database(Path(sys.argv[1]))\n"
        "opened.connection.close()\n"
        "assert reference.render_reference()\n"
        "print(ostler.server.__file__)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "ostler.db")]
    # First on the path, so that it wins over the checkout that this environment has installed.
    said = subprocess.run(command, env={"PYTHONPATH": str(installed)}, capture_output=True, text=True, check=True)
    assert said.stdout.strip().startswith(str(installed))


def test_no_message_names_a_page_that_is_not_installed() -> None:
    """The pages of docs/ are not in the wheel: what the product says has to do without them."""
    for room in ("protocol", "storage", "tools", "server", "clients"):
        for path in (ROOT / room / "ostler").rglob("*.py"):
            text = path.read_text("utf-8")
            if "docs/" in text:
                named = [said for said in find_messages(ast.parse(text)) if "docs/" in said]
                assert named == [], path


def find_messages(tree: ast.Module) -> list[str]:
    """The strings of a module that are no documentation of its code."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone]
    return [node.value for node in constants if isinstance(node.value, str)]
