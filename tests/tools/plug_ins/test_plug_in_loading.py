"""Plug-ins: the defaults of a tool that declares nothing, and the message about one that cannot be loaded."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ostler.tools.call_subject import find_path, find_rule_text, find_subject
from ostler.tools.context import SessionView
from ostler.tools.permissions.subject import TextSubject
from ostler.tools.registry import from_entry_points
from ostler.tools.tool import Pass
from ostler.tools.traits import PermissionTraits, ShellTraits
from tests.support.tool_calls import Session
from tests.tools.test_registry import EmptyInput, MinimalTool, WordsOutput

SOURCE = "from tests.tools.test_registry import MinimalTool\nclass Knock(MinimalTool):\n    name = 'Knock'\n"
LoadPlugIn = Callable[[dict[str, str], str], str]


class SilentTool(MinimalTool):
    name = "Silent"


@pytest.mark.anyio
async def test_a_tool_that_says_nothing_of_itself_is_treated_with_care(session: Session) -> None:
    tool, given = SilentTool(), EmptyInput()
    assert (tool.aliases, tool.search_hint, tool.title) == ((), "", "")
    assert (tool.deferred, tool.always_load, tool.strict, tool.only_reads) == (False, False, False, False)
    assert tool.input_examples == ()
    assert (tool.max_result_chars, tool.interrupt) == (50_000, "cancel")
    assert tool.is_enabled(session.view)
    assert not tool.is_read_only(given)
    assert not tool.is_concurrency_safe(given)
    assert not tool.is_destructive(given)
    assert (tool.permissions, tool.shell) == (PermissionTraits(), ShellTraits())
    assert (tool.activity(given), find_path(tool, given), find_rule_text(tool, given)) == ("other", None, "")
    assert await find_subject(tool, given, session.view) == TextSubject("")
    assert await tool.validate(given, session.make_context()) is None
    assert await tool.check_permission(given, session.make_context()) == Pass()
    assert tool.render(WordsOutput(words="a")) == [{"type": "text", "text": '{"words":"a"}'}]
    assert (tool.summary(given), tool.classifier_text(given)) == ("Silent", "")


@pytest.fixture
def load_plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoadPlugIn]:
    """Installs a plug-in as pip would, loads it, and returns the problem, or nothing."""
    before = set(sys.modules)

    def load(files: dict[str, str], entry_point: str) -> str:
        info = tmp_path / "theirs-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[ostler.tools]\nknock = {entry_point}\n")
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        [found] = from_entry_points()
        return found if isinstance(found, str) else ""

    yield load
    for name in set(sys.modules) - before:
        if name.startswith("knocking"):
            del sys.modules[name]


def test_a_single_module_without_a_description_is_told_where_that_could_stand(load_plug_in: LoadPlugIn) -> None:
    assert load_plug_in({"knocking.py": SOURCE, "knocking.md": "Knocks."}, "knocking:Knock") == (
        "The plug-in knock of theirs could not be loaded: its module knocking is in no package, where knocking.md "
        "could stand beside it: put it into one, or give Knock a description() of its own."
    )


def test_a_single_module_that_describes_itself_is_loaded(load_plug_in: LoadPlugIn) -> None:
    described = f"{SOURCE}    def description(self, surroundings):\n        return 'Knocks.'\n"
    assert load_plug_in({"knocking.py": described}, "knocking:Knock") == ""


def test_a_module_in_a_package_is_told_which_file_is_missing(load_plug_in: LoadPlugIn) -> None:
    assert load_plug_in({"knocking/__init__.py": "", "knocking/door.py": SOURCE}, "knocking.door:Knock") == (
        "The plug-in knock of theirs could not be loaded: there is no door.md beside its module knocking.door: "
        "write it, or give Knock a description() of its own."
    )


def test_a_module_in_a_package_with_its_file_is_loaded(load_plug_in: LoadPlugIn) -> None:
    files = {"knocking/__init__.py": "", "knocking/door.py": SOURCE, "knocking/door.md": "Knocks.\n"}
    assert load_plug_in(files, "knocking.door:Knock") == ""


def test_a_description_without_a_word_is_none(load_plug_in: LoadPlugIn) -> None:
    files = {"knocking/__init__.py": "", "knocking/door.py": SOURCE, "knocking/door.md": " \n"}
    assert load_plug_in(files, "knocking.door:Knock") == (
        "The plug-in knock of theirs could not be loaded: the description of Knock is empty."
    )


def test_what_a_description_of_its_own_raises_is_told_as_it_is(load_plug_in: LoadPlugIn) -> None:
    broken = f"{SOURCE}    def description(self, surroundings):\n        return open('/no/such/file').read()\n"
    line = load_plug_in({"knocking.py": broken}, "knocking:Knock")
    assert "FileNotFoundError(2, 'No such file or directory')" in line


def test_the_default_description_is_the_file_beside_the_module(session: Session) -> None:
    here: SessionView = session.view
    with pytest.raises(FileNotFoundError):
        SilentTool().description(here)
