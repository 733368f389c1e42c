"""The profile for macOS, as text."""

import re
from pathlib import Path

import pytest

from ostler.tools.sandbox import Profile, render_macos_profile


def build_profile(tmp_path: Path, kind: str = "workspace", **changes: object) -> Profile:
    usual: dict[str, object] = {
        "kind": kind, "roots": ("/work/project",), "folder": "/work/project", "hidden": ("/home/u/ostler",),
        "home": "/home/u",
    }  # fmt: skip
    return Profile(**{**usual, **changes})  # type: ignore[arg-type]


def list_rules(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("(")]


def test_everything_is_denied_that_is_not_allowed(tmp_path: Path) -> None:
    text = render_macos_profile(build_profile(tmp_path))
    assert list_rules(text)[:2] == ["(version 1)", "(deny default)"]
    assert text.count("(") == text.count(")")
    assert "network" not in text


def test_a_read_only_profile_allows_no_write_but_to_devices(tmp_path: Path) -> None:
    writes = [
        rule
        for rule in list_rules(render_macos_profile(build_profile(tmp_path, "read_only")))
        if "allow file-write" in rule
    ]
    assert writes == ['(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))']


def test_the_workspace_is_writable_save_the_protected_names_and_secrets_come_last(tmp_path: Path) -> None:
    found = list_rules(render_macos_profile(build_profile(tmp_path)))
    writable = found.index('(allow file-write* (subpath "/work/project"))')
    protected = [place for place, rule in enumerate(found) if rule.startswith("(deny file-write* (regex")]
    covered = [place for place, rule in enumerate(found) if rule.startswith("(deny file-read* file-write*")]
    assert writable < min(protected) < max(protected) < min(covered)
    assert found[max(covered)] == '(deny file-read* file-write* (subpath "/home/u/ostler"))'
    assert '(deny file-read* file-write* (subpath "/home/u/.ssh"))' in found


@pytest.mark.parametrize("name", [".git/hooks/x", ".GIT", "sub/.npmrc", ".ostler/settings.json", ".claude/Agents/a"])
def test_names_are_protected_at_every_depth_and_in_any_case(tmp_path: Path, name: str) -> None:
    patterns = re.findall(r'\(deny file-write\* \(regex #"(.*)"\)\)', render_macos_profile(build_profile(tmp_path)))
    as_written = [pattern.replace("\\\\", "\\") for pattern in patterns]
    assert any(re.search(pattern, f"/work/project/{name}") for pattern in as_written)
    for harmless in ("git/hooks", "xgit", ".gitx", ".ostler/worktrees/a", ".claude/notes", "a.npmrc.b"):
        assert not any(re.search(pattern, f"/work/project/{harmless}") for pattern in as_written)


def test_a_root_in_a_covered_folder_is_seen(tmp_path: Path) -> None:
    found = list_rules(render_macos_profile(build_profile(tmp_path, "read_only", roots=("/home/u/.docker/project",))))
    assert found[-1] == '(allow file-read* (subpath "/home/u/.docker/project"))'


def test_the_daemons_folder_is_covered_even_as_a_root(tmp_path: Path) -> None:
    found = list_rules(render_macos_profile(build_profile(tmp_path, "read_only", roots=("/home/u/ostler",))))
    assert found[-1] == '(deny file-read* file-write* (subpath "/home/u/ostler"))'


def test_a_name_cannot_write_rules_of_its_own(tmp_path: Path) -> None:
    text = render_macos_profile(build_profile(tmp_path, roots=('/work/a"))(allow default)("\\',)))
    assert r'(allow file-write* (subpath "/work/a\"))(allow default)(\"\\"))' in text
    with pytest.raises(ValueError, match="control character"):
        render_macos_profile(build_profile(tmp_path, roots=("/work/a\n(allow default)",)))


def test_the_only_network_is_the_proxys_socket(tmp_path: Path) -> None:
    found = list_rules(render_macos_profile(build_profile(tmp_path, network=("pypi.org",), proxy="/tmp/p/proxy.sock")))
    assert found[-1] == '(allow network-outbound (remote unix-socket (path-literal "/tmp/p/proxy.sock")))'
    assert "network" not in render_macos_profile(build_profile(tmp_path, network=("pypi.org",)))
