"""Tests of what is told from the names of folders of installed packages: the same as `importlib.metadata` tells."""

import subprocess
import sys
import zipfile
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

from ostler.protocol.installed import find_version, may_have_entry_points

GROUP = "ostler.tests.nobody"
MODEL_PLUGINS = """
import sys
from ostler.protocol.installed import skip_model_plugins
skip_model_plugins()
from pydantic import BaseModel
class Point(BaseModel):
    x: int
print(Point(x="1").x, "importlib.metadata" in sys.modules)
"""


def install(folder: Path, group: str) -> None:
    metadata = folder / "some_tool-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: some-tool\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\nx = json:loads\n")


@pytest.fixture(autouse=True)
def only_folders_and_path_finder(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a daemon: pytest looks for modules in a way of its own."""
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if not hasattr(one, "_rewritten_names")])


@pytest.mark.parametrize("package", ["ostler", "pydantic", "anyio"])
def test_a_version_is_that_of_the_metadata(package: str) -> None:
    assert find_version(package) == version(package)


def test_what_is_not_installed_has_no_version() -> None:
    assert find_version("nobody") is None


def test_entry_points_are_seen_where_a_package_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not may_have_entry_points(GROUP)
    install(tmp_path, GROUP)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert may_have_entry_points(GROUP)
    assert not may_have_entry_points(f"{GROUP}.further")
    assert [point.name for point in entry_points(group=GROUP)] == ["x"]


def test_what_stands_in_a_zip_file_is_not_ruled_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zipfile.ZipFile(tmp_path / "some.zip", "w").close()
    monkeypatch.syspath_prepend(str(tmp_path / "some.zip"))
    assert may_have_entry_points(GROUP)


def test_models_are_made_without_looking_for_plug_ins_of_theirs() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", MODEL_PLUGINS], capture_output=True, text=True, check=True)
    assert done.stdout == "1 False\n"
