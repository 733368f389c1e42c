"""Read-only git runs nothing that a repository names: real repositories, real git."""

import os
import subprocess
from pathlib import Path

import pytest

from ostler.tools.commands import (
    GIT_GUARD_ENVIRONMENT,
    UNSET_FOR_READ_ONLY,
    find_git_config_problem,
    is_read_only,
    parse_command,
)

GIT_IDENTITY = ["-c", "user.name=a", "-c", "user.email=a@b"]


def run_git(folder: Path, *arguments: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *GIT_IDENTITY, *arguments], cwd=folder, check=True, capture_output=True, env=environment)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    run_git(folder, "init", "-q", "-b", "main")
    (folder / "f").write_text("a\n")
    run_git(folder, "add", "f")
    run_git(folder, "commit", "-q", "-m", "x")
    (folder / "f").write_text("b\n")
    return folder


@pytest.fixture
def helper(tmp_path: Path) -> Path:
    """A program that leaves a trace wherever it is run."""
    path = tmp_path / "helper"
    path.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    path.chmod(0o755)
    return path


def run_command(command: str, folder: Path, more: dict[str, str]) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1", **more}
    subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", command], cwd=folder, env=environment, capture_output=True, check=False
    )


SWITCHED_OFF = [
    ("core.fsmonitor", "git status"),
    ("core.fsmonitor", "git diff"),
    ("core.fsmonitor", "git ls-files -m"),
]


@pytest.mark.parametrize(("key", "command"), SWITCHED_OFF)
def test_helpers_from_repository_config_are_switched_off_through_the_environment(
    key: str, command: str, repository: Path, helper: Path
) -> None:
    run_git(repository, "config", key, str(helper))
    assert is_read_only(parse_command(command), str(repository)).ok
    run_command(command, repository, GIT_GUARD_ENVIRONMENT)
    assert not (helper.parent / "ran").exists()
    run_command(command, repository, {})
    assert (helper.parent / "ran").exists(), "without the guard it would have run"


def test_signatures_are_not_checked_by_the_repositorys_program(repository: Path, helper: Path) -> None:
    signer = helper.with_name("signer")
    signer.write_text(
        "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho '-----BEGIN PGP SIGNATURE-----'\n"
    )
    signer.chmod(0o755)
    run_git(repository, "-c", f"gpg.program={signer}", "commit", "-q", "-S", "-a", "-m", "signed")
    run_git(repository, "config", "gpg.program", str(helper))
    run_git(repository, "config", "log.showSignature", "true")
    assert is_read_only(parse_command("git log"), str(repository)).ok
    run_command("git log", repository, GIT_GUARD_ENVIRONMENT)
    assert not (helper.parent / "ran").exists()
    run_command("git log", repository, {})
    assert (helper.parent / "ran").exists()


def test_hooks_do_not_run_and_the_index_is_not_written(repository: Path, helper: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to(helper)
    os.utime(repository / "f", (1, 1))
    before = (repository / ".git" / "index").read_bytes()
    run_command("git status", repository, GIT_GUARD_ENVIRONMENT)
    assert (repository / ".git" / "index").read_bytes() == before
    assert not (helper.parent / "ran").exists()


@pytest.mark.parametrize(
    ("key", "value", "attributes", "command"),
    [
        ("diff.external", "HELPER", "", "git diff"),
        ("diff.x.command", "HELPER", "f diff=x", "git diff"),
        ("diff.x.textconv", "HELPER", "f diff=x", "git diff"),
        ("filter.x.clean", "HELPER", "f filter=x", "git diff"),
        ("filter.x.process", "HELPER", "f filter=x", "git status"),
    ],
)
def test_a_repository_whose_config_has_keys_that_cannot_be_switched_off_asks(
    key: str, value: str, attributes: str, command: str, repository: Path, helper: Path
) -> None:
    (repository / ".gitattributes").write_text(attributes)
    run_git(repository, "config", key, value.replace("HELPER", str(helper)))
    verdict = is_read_only(parse_command(command), str(repository))
    assert not verdict.ok
    assert key in verdict.reason
    run_command(command, repository, GIT_GUARD_ENVIRONMENT)
    assert (helper.parent / "ran").exists(), "the guard alone would not have helped"


@pytest.mark.parametrize(
    ("key", "value"),
    [("include.path", "x"), ("includeIf.gitdir:/.path", "x"), ("core.worktree", "/"), ("extensions.partialClone", "x"),
     ("remote.x.promisor", "true"), ("merge.x.driver", "x"), ("submodule.x.update", "!x"), ("remote.x.uploadpack", "x"),
     ("lfs.customtransfer.x.path", "x"), ("unheard.of", "x"), ("core.gitproxy", "x")],
)  # fmt: skip
def test_keys_that_are_not_known_to_be_harmless_ask(key: str, value: str, repository: Path) -> None:
    run_git(repository, "config", key, value)
    assert (find_git_config_problem(str(repository)) or "").startswith(f"the key {key.lower()[:7]}")


def test_an_ordinary_clone_does_not_ask(repository: Path) -> None:
    clone = repository.parent / "clone"
    run_git(repository, "clone", "-q", str(repository), str(clone))
    run_git(clone, "config", "user.name", "x")
    run_git(clone, "config", "alias.st", "!touch x")
    run_git(clone, "config", "branch.main.description", "one\ntwo")
    assert find_git_config_problem(str(clone)) is None
    (clone / "deep" / "er").mkdir(parents=True)
    assert find_git_config_problem(str(clone / "deep" / "er")) is None


def test_submodules_ask(repository: Path) -> None:
    (repository / ".gitmodules").write_text("")
    assert "submodules" in (find_git_config_problem(str(repository)) or "")


def test_the_configuration_is_found_from_a_worktree_and_a_linked_folder(repository: Path) -> None:
    tree = repository.parent / "tree"
    run_git(repository, "worktree", "add", "-q", str(tree))
    assert find_git_config_problem(str(tree)) is None
    run_git(repository, "config", "filter.x.clean", "x")
    assert "filter.x.clean" in (find_git_config_problem(str(tree)) or "")
    run_git(repository, "config", "--unset", "filter.x.clean")
    run_git(repository, "config", "extensions.worktreeConfig", "true")
    run_git(tree, "config", "--worktree", "filter.y.clean", "y")
    assert "filter.y.clean" in (find_git_config_problem(str(tree)) or "")
    assert find_git_config_problem(str(repository)) is None


@pytest.mark.parametrize("update", ["--index-version=2", "--index-version=4", "--split-index"])
def test_a_submodule_asks_though_its_file_is_gone_from_the_work_tree(
    update: str, repository: Path, helper: Path, tmp_path: Path
) -> None:
    nested = repository / "nested"
    nested.mkdir()
    run_git(nested, "init", "-q")
    (nested / ".gitattributes").write_text("* filter=x\n")
    (nested / "g").write_text("a\n")
    run_git(nested, "add", ".")
    run_git(nested, "commit", "-q", "-m", "x")
    (repository / "size").write_text("x" * 0xE000)
    (repository / "a-new-one").write_text("x")
    run_git(repository, "add", "size")
    run_git(repository, "add", "--intent-to-add", "a-new-one")
    run_git(repository, "update-index", update)
    assert find_git_config_problem(str(repository)) is None
    (repository / ".gitmodules").write_text('[submodule "n"]\n\tpath = nested\n\turl = ./n\n\tignore = none\n')
    run_git(repository, "add", "nested", ".gitmodules")
    run_git(repository, "update-index", update)
    run_git(nested, "config", "filter.x.clean", str(helper))
    (repository / ".gitmodules").unlink()
    (nested / "g").write_text("b\n")
    # Under the guard the filter of the submodule would run: this is why it asks.
    run_command("git status", repository, GIT_GUARD_ENVIRONMENT)
    assert (tmp_path / "ran").exists()
    assert "submodules" in (find_git_config_problem(str(repository)) or "")
    index = repository / ".git" / "index"
    index.write_bytes(index.read_bytes()[:100])
    assert find_git_config_problem(str(repository)) is not None


def test_an_index_with_hashes_of_another_size_is_read(tmp_path: Path) -> None:
    top, nested = tmp_path / "top", tmp_path / "top" / "nested"
    for folder in (top, nested):
        run_git(tmp_path, "init", "-q", "--object-format=sha256", str(folder))
        for name in ("a", "bb", "c" * 200):
            (folder / name).write_text(name)
    run_git(top, "add", "a", "bb", "c" * 200)
    (top / "d").write_text("d")
    run_git(top, "add", "--intent-to-add", "d")
    assert find_git_config_problem(str(top)) is None
    run_git(nested, "add", ".")
    run_git(nested, "commit", "-q", "-m", "x")
    run_git(top, "add", "nested")
    assert "submodules" in (find_git_config_problem(str(top)) or "")


def test_an_index_that_is_no_file_asks_and_holds_nobody_up(repository: Path) -> None:
    (repository / ".git" / "index").unlink()
    assert find_git_config_problem(str(repository)) is None
    os.mkfifo(repository / ".git" / "index")
    assert find_git_config_problem(str(repository)) is not None


def test_a_folder_that_looks_like_a_bare_repository_is_looked_at(repository: Path) -> None:
    trap = repository / "trap"
    run_git(repository, "init", "-q", "--bare", str(trap))
    run_git(trap, "config", "filter.x.clean", "x")
    assert find_git_config_problem(str(trap)) is not None
    assert not is_read_only(parse_command("cd trap && git status"), str(repository)).ok
    assert is_read_only(parse_command("git status"), str(repository)).ok


def test_no_repository_is_no_problem(tmp_path: Path) -> None:
    assert find_git_config_problem(str(tmp_path)) is None


@pytest.mark.parametrize(
    "content", ["[core\n", "x = y\n", "[a]\n= x\n", "[core] bare = false\n\\\n???\n", "[a]\nb c d\n"]
)
def test_a_configuration_that_is_not_understood_asks(content: str, repository: Path) -> None:
    (repository / ".git" / "config").write_text(content)
    assert find_git_config_problem(str(repository)) is not None


def test_a_configuration_that_is_huge_or_no_file_asks(repository: Path) -> None:
    config = repository / ".git" / "config"
    config.write_text("# x\n" * 100_000)
    assert find_git_config_problem(str(repository)) is not None
    config.unlink()
    os.mkfifo(config)
    assert find_git_config_problem(str(repository)) is not None
    config.unlink()
    config.write_bytes(b"[core]\n\tbare = \xff\n")
    assert find_git_config_problem(str(repository)) is not None


def test_keys_cannot_hide_behind_odd_spellings(repository: Path) -> None:
    spellings = [
        '[FILTER "x"]clean=x\n',
        "[filter.x]\nclean=x\n",
        '[core]bare=false\n[filter "x"] clean = x\n',
        '[core]\nbare = \\\nfalse\n[filter "x"]\nclean=x\n',
        '[core]\r\nbare=false\r\n[filter "x"]\r\nclean=x\r\n',
    ]
    for content in spellings:
        (repository / ".git" / "config").write_text(content)
        assert "clean" in (find_git_config_problem(str(repository)) or ""), content


def test_the_approved_text_still_works_under_the_guard(repository: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(repository), **GIT_GUARD_ENVIRONMENT}
    for command in ("git status --short", "git diff", "git log -p", "git show", "git blame f", "git grep b"):
        done = subprocess.run(
            ["bash", "-c", command], cwd=repository, env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_no_variable_of_the_guard_is_unset_again() -> None:
    assert not set(GIT_GUARD_ENVIRONMENT) & set(UNSET_FOR_READ_ONLY)


@pytest.mark.parametrize(
    "command",
    ["time git status", "timeout 5 git status", "nice stdbuf -oL git log", "command git diff", "(git status)"],
)
def test_git_is_looked_at_behind_a_wrapper_as_well(command: str, repository: Path) -> None:
    assert is_read_only(parse_command(command), str(repository)).ok
    run_git(repository, "config", "filter.x.clean", "x")
    assert "filter.x.clean" in is_read_only(parse_command(command), str(repository)).reason


@pytest.mark.parametrize("command", ["cd $X && git status", "cd - ; git status"])
def test_git_in_an_unknown_folder_asks(command: str, repository: Path) -> None:
    assert not is_read_only(parse_command(command), str(repository)).ok


def test_no_way_into_a_nested_repository_but_judged(repository: Path) -> None:
    nested = repository / "nested"
    nested.mkdir()
    run_git(nested, "init", "-q")
    run_git(nested, "config", "filter.x.clean", "x")
    assert not is_read_only(parse_command("git -C nested status"), str(repository)).ok
    assert not is_read_only(parse_command("cd nested && git status"), str(repository)).ok
    assert not is_read_only(parse_command("cd nested; git status"), str(repository)).ok
