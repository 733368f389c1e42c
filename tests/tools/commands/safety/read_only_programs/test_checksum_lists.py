"""`sha256sum -c LIST` passes where all that the list names lies below the folder that it runs in."""

from pathlib import Path

import pytest

from ostler.tools.commands import find_file_effects, is_read_only, parse_command, part_is_read_only

HASH = "d2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "outside").write_text("x")
    (folder / "a b").write_text("x")
    (folder / "link").symlink_to("../outside")
    (folder / "inner").symlink_to("a b")
    return folder


@pytest.mark.parametrize(
    "line",
    [
        "{0}  a b",
        "{0} *sub/x",
        "{0} a",
        "SHA256 (a b) = {0}",
        "SHA256(a)= {0}",
        "# ../x",
        "",
        "  ",
        "{0}  inner",
        "{0}  ./a",
    ],
)
@pytest.mark.parametrize("command", ["sha256sum -c SUMS", "md5sum --quiet --check SUMS", "time sha1sum -wc SUMS"])
def test_a_list_of_files_below_passes(command: str, line: str, project: Path) -> None:
    (project / "SUMS").write_text(f"{HASH}  a\n{line.format(HASH)}\n")
    assert is_read_only(parse_command(command), str(project)).ok


@pytest.mark.parametrize(
    "line",
    [
        "{0}  ../outside", "{0} */etc/passwd", "{0} /etc/passwd", "{0}  link", "{0}  sub/../../outside", "{0}  .",
        "SHA256 (/etc/passwd) = {0}", "\\{0}  a\\nb", "foo", "{0}", "{0}  a\0b", "{0}\ta",
    ],
)  # fmt: skip
def test_a_list_that_leads_elsewhere_or_is_not_understood_asks(line: str, project: Path) -> None:
    (project / "SUMS").write_text(f"{HASH}  a\n{line.format(HASH)}\n")
    for command in ("sha256sum -c SUMS", "sha256sum -c SU*", "timeout 5 b2sum -c a SUMS", "(sha512sum -c < f SUMS)"):
        assert not is_read_only(parse_command(command), str(project)).ok, command


@pytest.mark.parametrize(
    "command",
    [
        "sha256sum -c", "sha256sum -c -", "cat SUMS | sha256sum -c", "sha256sum -c missing",
        "sha256sum -c sub", "sha256sum -c $X",
        "sha256sum --che SUMS", "sha256sum -zc SUMS", "sha256sum --tag -c SUMS", "find . -exec sha256sum -c {} +",
        "find . -name SUMS | xargs sha256sum -c", "cd sub && sha256sum -c ../SUMS2", "cksum -c SUMS",
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_looked_at_asks(command: str, project: Path) -> None:
    (project / "SUMS").write_text(f"{HASH}  a\n")
    (project / "SUMS2").write_text(f"{HASH}  ../a\n")
    assert not is_read_only(parse_command(command), str(project)).ok


@pytest.mark.parametrize("command", ["cat SUMS | sha256sum -c -", "sha256sum -c SUMS -"])
def test_a_file_with_the_name_of_the_input_is_not_the_list(command: str, project: Path) -> None:
    for name in ("-", "SUMS"):
        (project / name).write_text(f"{HASH}  a\n")
    assert not is_read_only(parse_command(command), str(project)).ok


@pytest.mark.parametrize(
    "command", ["find . -exec {} +", "find . -name SUMS -exec {} \\;", "find . | xargs {}", "git ls-files | xargs {}"]
)
def test_no_list_that_is_found_is_used(command: str, tmp_path: Path) -> None:
    for program, passes in (("sha256sum", True), ("sha256sum -c", False), ("time md5sum --check", False)):
        line = command.replace("{}", f"{program} {{}}" if "exec" in command else program)
        assert is_read_only(parse_command(line), str(tmp_path)).ok is passes, line


def test_a_list_is_looked_at_before_a_part_counts_as_reading_and_a_deny_rule_asks() -> None:
    parsed = parse_command("sha256sum -c SUMS")
    assert not part_is_read_only(parsed.parts[0])
    assert find_file_effects(parsed, "/p").unknown_reads
