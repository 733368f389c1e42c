"""What Bash offers and gives back: its schema by what is allowed, pictures, and what is said of no output."""

import base64
import io
import re
import zlib
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from ostler.tools.files.edit import Edit
from ostler.tools.files.write import Write
from ostler.tools.shell.base import ShellTool
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.powershell import PowerShell
from ostler.tools.shell.result import ShellOutput
from ostler.tools.tool import AskFirst, Failure
from ostler.tools.tool_config import SandboxMode, SandboxSettings, Support
from tests.support.tool_calls import Session, poll_until

pytestmark = pytest.mark.anyio
BASH = Bash()
BOTH_SHELLS = pytest.mark.parametrize("tool", [BASH, PowerShell()], ids=lambda tool: tool.name)


def probe_no_sandbox() -> Support:
    return Support(works=False, bwrap=None, reason="a test")


def build_sandbox_settings(mode: SandboxMode = "auto", *, may_disable: bool = True) -> SandboxSettings:
    return SandboxSettings(mode, probe_no_sandbox, model_may_disable=may_disable)


def list_parameters(session: Session) -> set[str]:
    return set(BASH.input_schema(session.view)["properties"])


ALWAYS = {"command", "timeout", "description"}


async def test_the_schema_has_only_what_is_allowed_here(session: Session) -> None:
    assert list_parameters(session) == {*ALWAYS, "run_in_background"}
    assert list_parameters(session.change_view(background=False)) == ALWAYS
    assert "run_in_background" not in BASH.description(session.view)
    session.change_view(background=True).change_config(sandbox=build_sandbox_settings())
    assert list_parameters(session) == {*ALWAYS, "run_in_background", "dangerouslyDisableSandbox"}
    assert "run_in_background" in BASH.description(session.view)
    for refused in (
        build_sandbox_settings(may_disable=False),
        build_sandbox_settings("required"),
        build_sandbox_settings("off"),
        None,
    ):
        assert list_parameters(session.change_config(sandbox=refused)) == {*ALWAYS, "run_in_background"}


@BOTH_SHELLS
def test_only_tools_that_the_session_has_are_named(session: Session, tool: ShellTool) -> None:
    session.change_view(tools=frozenset({"Bash", "Edit", "Read"}), background=False)
    words = tool.description(session.view)
    assert "use Read and Edit rather than" in words
    named = re.compile(r"\b(?:TaskOutput|TaskStop|Sleep|Monitor|Glob|Grep|Write)\b")
    assert named.search(words.replace("Start-Sleep", "")) is None
    session.change_view(tools=frozenset({"Bash"}))
    assert "To read, search and change" not in tool.description(session.view)


async def test_hints_name_only_tools_that_the_session_has(session: Session) -> None:
    session.change_view(tools=frozenset({"Bash", "Edit", "Read"}), background=False)
    first = (await session.expect_failure(BASH, command="sleep 5")).message
    only = (await session.expect_failure(BASH, command="sleep 1", run_in_background=True)).message
    long = (await session.expect_failure(BASH, command="x" * 200_000)).message
    assert re.search(r"\b(?:TaskOutput|Sleep|Monitor|Write)\b", first + only + long) is None
    assert "For something to happen, use a loop" in first


@BOTH_SHELLS
async def test_what_is_not_offered_is_refused(session: Session, tool: ShellTool) -> None:
    failure = await session.expect_failure(tool, command="true", dangerouslyDisableSandbox=True)
    assert "dangerouslyDisableSandbox is off" in failure.message
    session.change_view(background=False)
    assert (
        "run_in_background is off"
        in (await session.expect_failure(tool, command="true", run_in_background=True)).message
    )


@BOTH_SHELLS
@pytest.mark.parametrize("name", ["dangerouslyDisableSandbox", "dangerously_disable_sandbox"])
async def test_to_leave_the_sandbox_needs_a_person_in_every_mode(session: Session, tool: ShellTool, name: str) -> None:
    session.change_view("bypassPermissions").change_config(sandbox=build_sandbox_settings())
    command = "ls" if tool is BASH else "Get-ChildItem"
    assert tool.is_read_only(tool.parse({"command": command}))
    given = tool.parse({"command": command, name: True})
    assert given.dangerously_disable_sandbox
    assert not tool.is_read_only(given), "or it would be kept to reading"
    check = await session.check(tool, command=command, **{name: True})
    assert isinstance(check, AskFirst)
    assert check.safety
    assert "outside the sandbox" in check.reason
    assert given.model_dump(by_alias=True, exclude_unset=True) == {
        "command": command,
        "dangerouslyDisableSandbox": True,
    }


@pytest.mark.parametrize(
    ("environment", "limits"),
    [
        ({}, "120000 600000"),
        ({"BASH_DEFAULT_TIMEOUT_MS": "1000"}, "1000 600000"),
        ({"BASH_MAX_TIMEOUT_MS": "1000"}, "120000 120000"),
        ({"BASH_DEFAULT_TIMEOUT_MS": "5000", "BASH_MAX_TIMEOUT_MS": "2000"}, "5000 5000"),
        ({"BASH_DEFAULT_TIMEOUT_MS": "-1", "BASH_MAX_TIMEOUT_MS": "1e9"}, "120000 600000"),
        ({"BASH_DEFAULT_TIMEOUT_MS": "0", "BASH_MAX_TIMEOUT_MS": "9" * 30}, "120000 600000"),
    ],
)
async def test_the_environment_moves_both_limits_and_what_is_wrong_there_is_ignored(
    session: Session, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], limits: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    default, maximum = limits.split()
    assert f"milliseconds: {maximum} at most" in BASH.description(session.view)
    assert f"after {default} ms goes on" in BASH.description(session.view)
    off = BASH.description(session.change_view(background=False).view)
    assert f"milliseconds: {default} if not given, {maximum} at most" in off
    above = await session.call(BASH, {"command": "true", "timeout": int(maximum) + 1})
    assert isinstance(above, Failure)
    assert f"from 1 to {maximum}" in above.message
    await session.expect_result(BASH, command="true", timeout=int(maximum))


# Pictures.


def encode_picture(kind: str, size: tuple[int, int] = (3, 2)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, kind)
    return file.getvalue()


def decode_image(block: dict[str, Any]) -> Image.Image:
    assert block["type"] == "image"
    return Image.open(io.BytesIO(base64.b64decode(block["source"]["data"])))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
async def test_a_picture_on_its_output_is_shown_as_one(session: Session, kind: str) -> None:
    (session.folder / "p").write_bytes(encode_picture(kind))
    output = (await session.expect_result(BASH, command="cat p")).output
    assert output.is_image
    [block] = BASH.render(output)
    assert block["source"]["media_type"] == f"image/{kind.lower()}"
    assert decode_image(block).size == (3, 2)
    assert output.stdout == f"data:image/{kind.lower()};base64,{block['source']['data']}"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_so_is_a_data_uri(session: Session, kind: str) -> None:
    (session.folder / "p").write_bytes(encode_picture(kind))
    command = f"printf 'data:image/{kind.lower()};base64,'; base64 p"
    output = (await session.expect_result(BASH, command=command)).output
    assert output.is_image
    assert decode_image(BASH.render(output)[0]).size == (3, 2)


async def test_a_large_one_is_scaled_to_what_the_model_takes(session: Session) -> None:
    (session.folder / "p").write_bytes(encode_picture("PNG", (4000, 1000)))
    output = (await session.expect_result(BASH, command="cat p")).output
    assert max(decode_image(BASH.render(output)[0]).size) == 1568


async def test_a_failure_that_prints_a_picture_is_still_one(session: Session) -> None:
    (session.folder / "p").write_bytes(encode_picture("PNG"))
    result = await session.expect_result(BASH, command="cat p; exit 3")
    assert result.is_error
    assert [block["type"] for block in BASH.render(result.output)] == ["image", "text"]
    assert BASH.render(result.output)[1]["text"] == "(exit code 3)"


@pytest.mark.parametrize(
    "command",
    [
        "head -c 20 p",
        "cat p; cat p | head -c 10; echo; head -c 40 p >q; cat q",
        "printf 'data:image/png;base64,????'",
        "printf 'data:image/png;base64,AAAA'; echo; echo and text",
        "printf 'data:image/svg+xml;base64,AAAA'",
        r"printf '\377\376\375 text'",
        "echo here; cat p",
        "printf 'data:image/png;base64,AAA'",
    ],
)
async def test_what_is_no_whole_picture_is_text(session: Session, command: str) -> None:
    (session.folder / "p").write_bytes(encode_picture("PNG")[:-20])
    output = (await session.expect_result(BASH, command=command)).output
    assert not output.is_image
    assert [block["type"] for block in BASH.render(output)] == ["text"]


async def test_a_picture_that_cannot_be_opened_is_told_in_words(session: Session) -> None:
    (session.folder / "p").write_bytes(encode_picture("PNG")[:40])
    text = await session.expect_text(BASH, command="cat p")
    assert text.startswith("(The command printed a picture that cannot be shown: it is a damaged image (")
    data = bytearray(encode_picture("PNG"))
    data[16:24] = (50_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    (session.folder / "p").write_bytes(data)
    text = await session.expect_text(BASH, command="cat p")
    assert "too large an image to open (50000x50000 pixels" in text
    (session.folder / "p").write_bytes(encode_picture("PNG"))
    text = await session.expect_text(BASH, command="cat p; head -c 21000000 /dev/zero")
    assert text == "(The command printed a picture that cannot be shown: it is 20.0 MB, and the limit is 20.0 MB.)"


async def test_no_file_of_a_picture_stays(session: Session) -> None:
    (session.folder / "p").write_bytes(encode_picture("PNG"))
    await session.expect_result(BASH, command="printf 'data:image/png;base64,'; base64 p")
    await poll_until(lambda: not list(session.outputs.iterdir()))


# No output.


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("mkdir x", True),
        ("mkdir -p x/y && touch x/z; cp x/z w", True),
        ("git add .", True),
        ("cd .", True),
        ("mkdir -v x", False),
        ("rm -fv nothing", False),
        ("true | cat", False),
        ("ls", False),
        ("git status -s", False),
    ],
)
async def test_silence_is_told_apart_from_silence_that_was_to_be_expected(
    session: Session, command: str, expected: bool
) -> None:
    if "git" in command:
        await session.expect_result(BASH, command="git init -q .")
    output = (await session.expect_result(BASH, command=command)).output
    assert output.no_output_expected is expected


async def test_what_is_printed_is_not_silence(session: Session) -> None:
    assert not (await session.expect_result(BASH, command="mkdir /proc/x; true")).output.no_output_expected


async def test_remarks_of_ours_and_nothing_else_are_in_stderr(session: Session) -> None:
    output = (await session.expect_result(BASH, command="echo out; echo err >&2")).output
    assert (output.stdout, output.stderr) == ("out\nerr\n", "")
    output = (await session.expect_result(BASH, command="echo err >&2; cd /")).output
    assert output.stdout == "err\n"
    assert "outside the session's folders" in output.stderr


async def test_an_unreadable_name_of_a_variable_of_ours_is_no_matter(session: Session) -> None:
    context = replace(session.make_context(), only_reads=True)
    result = await session.call(BASH, {"command": "echo ${PSModulePath-none}"}, context)
    assert not isinstance(result, Failure)
    assert result.output.stdout == "none\n"


POWERSHELL = PowerShell()


# What is offered and given back.


def test_the_output_tells_all_that_clients_are_promised() -> None:
    assert {
        "stdout", "stderr", "exit_code", "interrupted", "timed_out", "is_image", "background_task_id",
        "backgrounded_by", "return_code_interpretation", "no_output_expected", "persisted_result_id",
        "persisted_size", "sandboxed", "duration_ms", "git",
    } <= set(ShellOutput.model_fields)  # fmt: skip
    assert PowerShell.Output is Bash.Output is ShellOutput
    assert PowerShell.Input is Bash.Input
    assert (Bash.max_result_chars, PowerShell.max_result_chars) == (30_000, 30_000)


def test_the_descriptions_carry_the_rules_of_the_house(session: Session) -> None:
    bash = BASH.description(session.view)
    for words in (
        "use Read, Glob, Grep, Edit and Write rather than cat, find, grep, sed or echo",
        "Commit, push or open a pull request only when asked to",
        "Never change git's configuration",
        "--no-verify",
        "force-push or amend unless told to",
        "Add files by name",
        "Never throw work away unasked",
        "`git reset --hard`, `git checkout .`, `git restore .`, `git clean -f`, `git branch -D`",
        "A hook that fails has made no commit",
        "make a new one, without amending",
        "the repository's style",
        "Its title says what changes, its text why and how it was tried",
    ):
        assert words in bash, words
    assert "Documentation, notes and READMEs only when they were asked for" in Write().description(session.view)
    assert "Change existing files rather than adding new ones" in Edit().description(session.view)
