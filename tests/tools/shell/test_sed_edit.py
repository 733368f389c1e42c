"""A simple `sed -i` is treated as an edit; every other use of sed is a command like any other."""

import itertools
import random
import subprocess
from pathlib import Path

import pytest

from ostler.tools.files.editing.read_state import build_after_write
from ostler.tools.fs.text_file import load
from ostler.tools.services import FileRead, OlderFile
from ostler.tools.shell import sed_edit
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.sed_command import parse_sed_command
from ostler.tools.tool import Allow, AskFirst, Failure, FileChanged, Refuse
from tests.support.examples import count_examples
from tests.support.tables import try_each
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
BASH = Bash()


def run_bash(command: str, folder: Path) -> int:
    """Runs the command without ostler; returns its exit code."""
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, check=False).returncode


@try_each(
    "command",
    [
        "sed -i s/a/b/ f",
        "sed -i 's/a/b/' f",
        "sed -i 's/a/b/g' f g h",
        "sed -i -E 's/(a|b)+/x/gi' f",
        "sed -E -i 's|a/b|c|2' f",
        "sed -Ei 's/a/b/' f",
        "sed --in-place --regexp-extended 's,a,b,' f",
        "sed -i -e 's/a/b/' -e 's#c#d#g' f",
        "sed -i --expression='s/a/b/' f",
        "sed -i 's/a/b/;s/c/d/g; s/e/f/' f",
        "sed -i '3s/a/b/' f",
        "sed -i '2,$s/a/b/' f",
        "sed -i '$s/a/b/' f",
        r"sed -i 's/\//x/' f",
        r"sed -i 's/\(a\)\1/\1\n/' f",
        "sed -i 's/a/b/' -- -f",
        "sed -i 's/[[:space:]]*$//' 'my file'",
    ],
)
def test_what_only_substitutes_is_an_edit(command: str) -> None:
    assert parse_sed_command(command) is not None


@try_each(
    "command",
    [
        "sed s/a/b/ f",
        "sed -i s/a/b/",
        "sed -i.bak s/a/b/ f",
        "sed -iE s/a/b/ f",
        "sed -i -n s/a/b/p f",
        "sed -i -s s/a/b/ f",
        "sed -i -z s/a/b/ f",
        "sed -i s/a/b/w f",
        "sed -i 's/a/b/w out' f",
        "sed -i 's/a/b/e' f",
        "sed -i 's/a/id/ge' f",
        "sed -i 's/a/b/p' f",
        "sed -i 's/a/b/;w out' f",
        "sed -i 's/a/b/;e id' f",
        "sed -i '/x/s/a/b/' f",
        "sed -i '1~2s/a/b/' f",
        "sed -i '2!s/a/b/' f",
        "sed -i 'd' f",
        "sed -i '1d' f",
        "sed -i 'y/a/b/' f",
        "sed -i 's/a/b' f",
        "sed -i 's/a/b/q' f",
        "sed -i 's/a/b\\\nc/' f",
        "sed -i 's/a/b/\nw out' f",
        "sed -i 's a b ' f",
        "sed -i sxaxbx f",
        "sed -i -f script f",
        "sed -i s/a/$x/ f",
        "sed -i s/a/b/ *.py",
        "sed -i s/a/b/ ~/f",
        "sed -i s/a/b/ f f",
        "sed -i s/a/b/ f; ls",
        "sed -i s/a/b/ f && ls",
        "cd x && sed -i s/a/b/ f",
        "A=1 sed -i s/a/b/ f",
        "sed -i s/a/b/ f >out",
        "sed -i s/a/b/ f &",
        "sudo sed -i s/a/b/ f",
        "/bin/sed -i s/a/b/ f",
        "(sed -i s/a/b/ f)",
        "sed -i s/a/b/ $(ls)",
        "sed -i --posix s/a/b/ f",
        "sed -i --follow-symlinks s/a/b/ f",
        "ls",
        "sed -i s/a/b/ " + " ".join(f"f{number}" for number in range(30)),
    ],
)
def test_everything_else_is_a_command(command: str) -> None:
    assert parse_sed_command(command) is None


async def test_the_person_is_shown_the_edit(session: Session) -> None:
    (session.folder / "f.txt").write_text("one\ntwo\nthree\n")
    check = await session.check(BASH, command="sed -i 's/two/2/' f.txt")
    assert isinstance(check, AskFirst)
    assert check.message == f"Change {session.folder}/f.txt?"
    assert not check.safety
    assert check.diff is not None
    assert "-two\n+2\n" in check.diff
    assert (session.folder / "f.txt").read_text() == "one\ntwo\nthree\n", "nothing is written before the yes"


@pytest.mark.parametrize(
    ("locale", "shown"), [("de_DE.ISO-8859-1", "Run this"), ("ja_JP.SJIS", "Run this"), ("C.UTF-8", "Change")]
)
async def test_where_characters_are_other_bytes_sed_itself_is_to_do_it(
    session: Session, locale: str, shown: str
) -> None:
    (session.folder / "f").write_text("two\n")
    session.change_view(environment={"LC_ALL": locale})
    check = await session.check(BASH, command="sed -i s/t.o/2/ f")
    assert isinstance(check, AskFirst)
    assert check.message.startswith(shown)


async def test_it_is_written_as_edit_writes_and_the_result_shows_the_place(session: Session) -> None:
    kept: list[tuple[str, OlderFile | None]] = []

    class History:
        async def keep(self, path: str, older: OlderFile | None) -> None:
            assert load(path).text == "one\ntwo\n", "it is kept before it is changed"
            kept.append((path, older))

    file = session.folder / "f.txt"
    file.write_text("one\ntwo\n")
    file.chmod(0o640)
    result = await session.call(BASH, {"command": "sed -i 's/two/2/' f.txt"}, session.make_context(history=History()))
    assert not isinstance(result, Failure)
    assert file.read_text() == "one\n2\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path for path, _ in kept] == [str(file)]
    assert [type(change) for change in result.changes] == [FileChanged]
    assert (result.output.exit_code, result.output.stdout, result.output.no_output_expected) == (0, "", True)
    assert session.processes.started == [], "no process has written it"
    text = "".join(block["text"] for block in BASH.render(result.output))
    assert text.startswith(f"File updated: {file}\n")
    assert "2\t2" in text


async def test_several_files_are_one_ask_and_only_the_changed_ones_are_written(session: Session) -> None:
    for name in ("a", "b", "c"):
        (session.folder / name).write_text(f"{name} x\n" if name != "b" else "nothing\n")
    before = (session.folder / "b").stat().st_mtime_ns
    check = await session.check(BASH, command="sed -i -E 's/x+/y/g' a b c")
    assert isinstance(check, AskFirst)
    assert check.diff is not None
    assert check.diff.count("+++ ") == 2
    result = await session.expect_result(BASH, command="sed -i -E 's/x+/y/g' a b c")
    assert [edit.file_path for edit in result.output.edits] == [f"{session.folder}/a", f"{session.folder}/c"]
    assert (session.folder / "c").read_text() == "c y\n"
    assert (session.folder / "b").stat().st_mtime_ns == before
    assert (session.folder / "b").read_text() == "nothing\n"


async def test_in_accept_edits_it_passes_inside_the_roots_and_no_further(session: Session, tmp_path: Path) -> None:
    (session.folder / "f").write_text("a\n")
    (tmp_path / "outside").write_text("a\n")
    session.change_view("acceptEdits")
    assert await session.check(BASH, command="sed -i s/a/b/ f") == Allow()
    outside = await session.check(BASH, command=f"sed -i s/a/b/ {tmp_path}/outside")
    assert isinstance(outside, AskFirst)
    assert "outside" in outside.reason


async def test_guarded_files_are_seen_by_a_person_in_every_mode(session: Session) -> None:
    (session.folder / ".envrc").write_text("a\n")
    session.change_view("acceptEdits")
    check = await session.check(BASH, command="sed -i s/a/b/ .envrc")
    assert isinstance(check, AskFirst)
    assert check.safety
    session.change_view("acceptEdits", home=str(session.folder))
    check = await session.check(BASH, command="sed -i s/a/b/ .envrc")
    assert isinstance(check, Refuse | AskFirst)
    assert not isinstance(check, AskFirst) or check.safety


async def test_a_file_that_changed_after_the_yes_is_left_alone(session: Session) -> None:
    file = session.folder / "f"
    file.write_text("a\n")
    context, given = session.make_context(), BASH.parse({"command": "sed -i s/a/b/ f"})
    await BASH.check_permission(given, context)
    file.write_text("a a\n")
    failure = await BASH.run(given, context)
    assert isinstance(failure, Failure)
    assert "has changed since this was allowed" in failure.message
    assert file.read_text() == "a a\n"


async def test_a_file_that_became_a_link_after_the_yes_is_left_alone(session: Session, tmp_path: Path) -> None:
    file, victim = session.folder / "f", tmp_path / "victim"
    file.write_text("a\n")
    victim.write_text("a\n")
    context, given = session.make_context(), BASH.parse({"command": "sed -i s/a/b/ f"})
    await BASH.check_permission(given, context)
    file.unlink()
    file.symlink_to(victim)
    assert isinstance(await BASH.run(given, context), Failure)
    assert victim.read_text() == "a\n"


async def test_who_has_read_the_file_still_knows_it_and_nobody_else_does(session: Session) -> None:
    for name in ("read", "unread", "stale"):
        (session.folder / name).write_text("a\nb\n")

    def note(name: str) -> FileRead:
        file = load(str(session.folder / name))
        read = build_after_write(file.status, file.digest, file.text)
        session.reads.put(str(session.folder / name), read)
        return read

    note("read")
    stale = note("stale")
    (session.folder / "stale").write_text("a\nb\nc\n")
    await session.expect_result(BASH, command="sed -i s/b/x/ read unread stale")
    known = session.reads.by_path[str(session.folder / "read")]
    assert known.digest == load(str(session.folder / "read")).digest
    assert known.ranges == ((1, 2),)
    assert str(session.folder / "unread") not in session.reads.by_path
    assert session.reads.by_path[str(session.folder / "stale")] == stale


@pytest.mark.parametrize(
    ("prepare", "command", "left"),
    [
        ("ln -s real link", "sed -i s/a/b/ link", "a file in the place of the link"),
        ("printf 'a\\0b\\n' >bin", "sed -i s/a/b/ bin", "binary"),
        ("printf 'x\\n' >same", "sed -i s/a/b/ same", "no match"),
        ("mkdir dir", "sed -i s/a/b/ dir", "no file"),
        (":", "sed -i s/a/b/ missing", "missing"),
        ("printf '{}' >n.ipynb", "sed -i s/a/b/ n.ipynb", "a notebook"),
        ("echo a >bad", "sed -i 's/[a/b/' bad", "a wrong expression"),
    ],
)
async def test_where_we_are_not_sure_sed_itself_does_it(
    session: Session, prepare: str, command: str, left: str
) -> None:
    (session.folder / "real").write_text("a\n")
    assert run_bash(prepare, session.folder) == 0
    check = await session.check(BASH, command=command)
    assert isinstance(check, AskFirst), left
    assert check.diff is None, left
    before = len(session.processes.started)
    result = await session.expect_result(BASH, command=command)
    assert result.output.edits == ()
    assert len(session.processes.started) == before + 1


async def test_another_sed_in_the_path_is_run_as_the_command_that_it_is(session: Session) -> None:
    (session.folder / "f").write_text("a\n")
    own = session.folder / "sed"
    own.write_text("#!/bin/sh\necho own\n")
    own.chmod(0o755)
    session.change_view(environment={"PATH": f"{session.folder}:/usr/bin:/bin"})
    assert await session.expect_text(BASH, command="sed -i s/a/b/ f") == "own"


async def test_what_would_take_too_much_is_left_to_the_command(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An eighth of the memory, which is used up in an eighth of the time.
    assert sed_edit._ULIMIT_SCRIPT.count("ulimit -v 524288;") == 1
    monkeypatch.setattr(sed_edit, "_ULIMIT_SCRIPT", sed_edit._ULIMIT_SCRIPT.replace("524288", "65536"))
    (session.folder / "f").write_text("a" * 2_000_000)
    replacement = "&" * 2000
    check = await session.check(BASH, command=f"sed -i 's/a/{replacement}/g' f")
    assert isinstance(check, AskFirst)
    assert check.diff is None


def generate_cases() -> list[tuple[str, str]]:
    """Commands and contents, many and always the same."""
    chosen = random.Random(5)
    patterns = [
        "a", "b*", "^", "$", "^a", "a$", ".", "[ab]", "[^a]", "[[:space:]]*$", r"\(a\)\(b\)*", r"a\|b", r"\ba",
        r"\s", r"\w*", "é", "", r"x\{2,3\}", r"\.", r"\t", "a.c", r"\n", "A", r"\<a", r"[]x]", r"\/",
    ]  # fmt: skip
    extended = ["(a|b)+", "a{2}", "(a)(b)?", r"(x)\1", "^(.*)$", "[a-c]+d?", "a|^b", r"\bfoo\b", "()", "a+?"]
    replacements = ["", "X", "&&", r"[\0]", r"\n", r"\t", "é", r"\U&", r"\u&x\E", r"\/", "a b", r"\&", "$"]
    grouped = [r"<\1>", r"\2\1", r"\1"]
    flags = ["", "g", "i", "I", "2", "gi", "2g", "gI"]
    contents = [
        "",
        "a",
        "a\n",
        "ab\nba\n\nxxx",
        "aAa bb  \nfoo a.c\n",
        "\n\n",
        "é à\nxxabab\t\n",
        "a\r\nb\r\n",
        "\ta/b\n" * 5,
    ]
    made: list[tuple[str, str]] = []
    for content, _ in itertools.product(contents, range(count_examples(40))):
        with_e = chosen.random() < 0.4
        pattern = chosen.choice(extended if with_e else patterns)
        replacement = chosen.choice(replacements + (grouped if "(" in pattern else []))
        address = chosen.choice(["", "", "1", "2,3", "$", "2,$", "3,1"])
        expression = f"{address}s/{pattern}/{replacement}/{chosen.choice(flags)}"
        if chosen.random() < 0.2:
            expression += f";s|b|{chosen.choice(['c', ''])}|g"
        made.append((f"sed -i{' -E' if with_e else ''} '{expression}' f", content))
    return made


def run_all_in_bash(cases: list[tuple[str, str]], folder: Path) -> list[int]:
    """Runs each command without ostler on a file of its own, in one shell; returns their exit codes."""
    for number, (_, content) in enumerate(cases):
        (folder / str(number)).mkdir()
        (folder / str(number) / "f").write_bytes(content.encode())
    script = "".join(f"cd {number}\n{command}\necho $?\ncd ..\n" for number, (command, _) in enumerate(cases))
    done = subprocess.run(["bash"], input=script.encode(), cwd=folder, capture_output=True, check=True)
    return [int(code) for code in done.stdout.split()]


async def test_the_result_is_that_of_sed_itself(session: Session, tmp_path: Path) -> None:
    ours = theirs = 0
    cases, elsewhere = generate_cases(), tmp_path / "elsewhere"
    elsewhere.mkdir()
    codes = run_all_in_bash(cases, elsewhere)
    for number, ((command, content), code) in enumerate(zip(cases, codes, strict=True)):
        mine, real = session.folder / "f", elsewhere / str(number) / "f"
        mine.write_bytes(content.encode())
        result = await session.expect_result(BASH, command=command)
        assert mine.read_bytes() == real.read_bytes(), (command, content)
        assert bool(result.is_error) is bool(code), (command, content)
        ours += bool(result.output.edits)
        theirs += not result.output.edits
    assert ours > count_examples(100), "most that change something are edits"
    assert theirs > 0
