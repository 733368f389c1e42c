"""Plug-ins of an earlier release: what they import works for one release, and the log says what to import instead."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.tools import PermissionTraits
from ostler.tools.builtin import load_registry
from ostler.tools.call_subject import find_path, find_rule_text, find_subject, list_paths, list_rule_families
from ostler.tools.permissions.subject import PathSubject
from ostler.tools.tool import ToolResult
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio

OLD_PLUG_IN = textwrap.dedent(
    """
    from pathlib import Path

    from ostler.tools import paths
    from ostler.tools.context import Surroundings, ToolContext
    from ostler.tools.threads import read_in_thread
    from ostler.tools.tool import Block, Failure, Ran, Tool, ToolInput, ToolOutput, text_block


    class LengthInput(ToolInput):
        file_path: str


    class LengthOutput(ToolOutput):
        characters: int
        folder: str


    class Length(Tool[LengthInput, LengthOutput]):
        name = "Length"
        Input = LengthInput
        Output = LengthOutput

        def description(self, surroundings: Surroundings) -> str:
            return "How long a file is."

        async def validate(self, given: LengthInput, context: ToolContext) -> Failure | None:
            flaw = paths.flaw(given.file_path)
            return Failure(flaw) if flaw is not None else None

        async def run(self, given: LengthInput, context: ToolContext) -> Ran[LengthOutput] | Failure:
            text = await read_in_thread(Path(given.file_path).read_text)
            return Ran(LengthOutput(characters=len(text), folder=context.surroundings.folder))

        def render(self, output: LengthOutput) -> list[Block]:
            return [text_block(str(output.characters))]
    """
)
OLD_MEMBERS = textwrap.dedent(
    """
    from ostler.tools import SessionView, Tool, ToolContext, ToolInput, ToolOutput, ToolResult


    class CountInput(ToolInput):
        book: str
        shelf: str = ""


    class Count(Tool[CountInput, ToolOutput]):
        name = "Count"
        Input = CountInput
        Output = ToolOutput
        path_rules = ("Read",)
        denied_code = 7
        runs_commands = True

        def description(self, session: SessionView) -> str:
            return "Counts."

        def path(self, given: CountInput) -> str | None:
            return given.book or None

        def list_paths(self, given: CountInput) -> tuple[str, ...]:
            return (given.book, given.shelf)

        def permission_matcher(self, given: CountInput) -> str:
            return "the book " + given.book

        def only_waits(self, given: CountInput) -> bool:
            return given.book == "none"

        async def run(self, given: CountInput, context: ToolContext) -> ToolResult[ToolOutput]:
            return ToolResult(ToolOutput())
    """
)
NEW_PLUG_IN = textwrap.dedent(
    """
    from ostler.tools import Failure, SessionView, Tool, ToolContext, ToolInput, ToolOutput, ToolResult


    class Silence(Tool[ToolInput, ToolOutput]):
        name = "Silence"
        Input = ToolInput
        Output = ToolOutput

        def description(self, session: SessionView) -> str:
            return "Nothing."

        async def run(self, given: ToolInput, context: ToolContext) -> ToolResult[ToolOutput] | Failure:
            return ToolResult(ToolOutput())
    """
)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Puts a module with one tool on the path, as a package that names it in its entry points."""

    def install_module(module: str, source: str, tool: str) -> None:
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[ostler.tools]\n{module} = {module}:{tool}\n")
        monkeypatch.syspath_prepend(str(tmp_path))

    return install_module


async def test_a_plug_in_of_an_earlier_release_works_and_its_imports_are_named(
    install: Callable[[str, str, str], None], session: Session
) -> None:
    install("earlier_length", OLD_PLUG_IN, "Length")
    registry = load_registry()
    assert registry.problems == ()
    assert [words.split(" imports ")[1].split(",")[0] for words in registry.deprecations] == [
        "ostler.tools.context",
        "ostler.tools.paths",
        "ostler.tools.threads",
        "ostler.tools.tool",
    ]
    assert all("import from ostler.tools instead" in words for words in registry.deprecations)
    [tool] = [tool for tool in registry.tools if tool.name == "Length"]
    file = session.folder / "a.txt"
    file.write_text("twelve chars")
    result = await session.call(tool, {"file_path": str(file)})
    assert isinstance(result, ToolResult)
    assert result.output.model_dump() == {"characters": 12, "folder": str(session.folder)}
    assert "is relative" in str(await session.call(tool, {"file_path": "a.txt"}))


async def test_the_members_of_an_earlier_release_are_read_and_named(
    install: Callable[[str, str, str], None], session: Session
) -> None:
    install("earlier_count", OLD_MEMBERS, "Count")
    registry = load_registry()
    assert registry.problems == ()
    said = {words.split(" has the member ")[1].split(",")[0]: words for words in registry.deprecations}
    assert set(said) == {"path", "list_paths", "path_rules", "permission_matcher", "denied_code"} | {
        "runs_commands",
        "only_waits",
    }
    assert said["path_rules"].endswith("say it as permissions.rule_family instead.")
    [tool] = [tool for tool in registry.tools if tool.name == "Count"]
    given = tool.parse({"book": "/b", "shelf": "/s"})
    assert (find_path(tool, given), find_rule_text(tool, given)) == ("/b", "the book /b")
    assert (list_paths(tool, given), list_rule_families(tool)) == (("/b", "/s"), ("Read",))
    assert (tool.permissions.denied_code, tool.shell.runs_commands, tool.shell.is_shell) == (7, True, False)
    assert not tool.shell.only_waits(given)
    subject = await find_subject(tool, given, session.view)
    assert isinstance(subject, PathSubject)
    assert [place.real for place in subject.paths] == ["/b", "/s"]


def test_a_parameter_that_is_not_there_is_named_when_the_tool_is_defined() -> None:
    with pytest.raises(TypeError, match="names the parameter 'file', which its Input lacks"):
        exec(NEW_PLUG_IN + "    permissions = PermissionTraits(path='file')\n", {"PermissionTraits": PermissionTraits})  # noqa: S102


def test_a_plug_in_that_imports_from_the_front_door_alone_is_not_named(
    install: Callable[[str, str, str], None],
) -> None:
    install("modern_silence", NEW_PLUG_IN, "Silence")
    registry = load_registry()
    assert (registry.problems, registry.deprecations) == ((), ())
    assert "Silence" in {tool.name for tool in registry.tools}
