"""Instruction files and skills below the session's folder: told once, when a file there is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash, read


def list_texts(driver: SessionDriver, request: int) -> list[str]:
    return [block["text"] for block in driver.requests[request].messages[-1]["content"] if block["type"] == "text"]


def test_those_of_a_folder_are_told_once_when_a_file_in_it_is_read(harness: Harness) -> None:
    driver = harness.open_session()
    deep = driver.folder / "web" / "deep"
    deep.mkdir(parents=True)
    (driver.folder / "web" / "AGENTS.md").write_text("Use tabs. @more.md")
    (driver.folder / "web" / "more.md").write_text("And no semicolons.")
    for name in ("one.txt", "two.txt"):
        (deep / name).write_text("words\n")
    top = driver.write_file("top.txt", "words\n")
    steps = (message(read(top)), message(read(deep / "one.txt")), message(read(deep / "two.txt")))
    harness.api.script(driver.name, *steps, otherwise=DONE)
    driver.run_turn()
    assert list_texts(driver, 1) == []
    tabs, semicolons = list_texts(driver, 2)
    assert tabs.startswith("<ostler-instructions ")
    assert "Use tabs." in tabs
    assert "And no semicolons." in semicolons
    assert list_texts(driver, 3) == []


def put_skill(folder: Path, name: str, text: str, *, places: str = ".claude/skills") -> Path:
    file = folder / places / name / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def open_with_packages(harness: Harness, folder: Path, *, trust: bool, **session: Any) -> SessionDriver:
    """A project with a skill of its own, and a package with two, one of which has the same name."""
    package = folder / "packages" / "x"
    put_skill(folder, "groom", "---\nallowed-tools: Bash(ls:*)\n---\nThe whole yard's.\n")
    put_skill(package, "groom", "The package's.")
    put_skill(package, "shoe", "---\ndescription: Shoes a horse\nallowed-tools: Bash(touch:*)\n---\nShoe $1.\n")
    put_skill(package, "feed", "---\ndescription: Feeds a horse\n---\nFeed $1.\n", places=".ostler/skills")
    (package / "one.txt").write_text("words\n")
    (package / "two.txt").write_text("words\n")
    return harness.open_session(folder=folder, trust=trust, **session)


def list_skills(harness: Harness, driver: SessionDriver) -> list[str]:
    return [each["name"] for each in harness.daemon.call("skill/list", session_id=driver.id)["skills"]]


def test_skills_of_a_folder_are_found_when_a_file_in_it_is_read_and_allow_nothing(
    own_harness: Callable[..., Harness], tmp_path: Path
) -> None:
    harness = own_harness()
    project = tmp_path / "project"
    driver = open_with_packages(harness, project, trust=True, on_ask="deny")
    package = project / "packages" / "x"
    steps = (
        message(read(package / "one.txt")),
        message(read(package / "two.txt"), calls("Skill", {"skill": "shoe", "args": "mare"})),
        message(bash(f"touch {project}/shod")),
    )
    harness.api.script(driver.name, *steps, otherwise=DONE)
    assert list_skills(harness, driver) == ["groom"]
    assert [denial["tool"] for denial in driver.run_turn()["denials"]] == ["Bash"]
    (note,) = list_texts(driver, 1)
    assert "- feed: Feeds a horse" in note
    assert "- shoe: Shoes a horse" in note
    assert "groom" not in note
    (taken_up,) = list_texts(driver, 2)
    assert "Shoe mare." in taken_up
    assert not (project / "shod").exists()
    assert len({str(request.body["tools"]) for request in driver.requests}) == 1
    # After a restart they are known, and one that has changed is read anew.
    harness.restart()
    assert list_skills(harness, driver) == ["feed", "groom", "shoe"]
    errors = [each["message"] for each in harness.daemon.call("skill/list", session_id=driver.id)["errors"]]
    assert any("allow nothing" in each for each in errors)
    assert any(f"{project}/.claude/skills/groom/SKILL.md has this name" in each for each in errors)
    (package / ".claude" / "skills" / "shoe" / "SKILL.md").write_text("---\ndescription: Is new\n---\nNew.\n")
    driver.run_turn()
    assert "- shoe: Is new" in list_texts(driver, -1)[0]


def test_skills_below_need_trust_and_may_not_lie_outside(harness: Harness, tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    put_skill(outside, "stray", "Stray.")
    (outside / "one.txt").write_text("words\n")
    project.mkdir()
    (project / "link").symlink_to(outside)
    driver = open_with_packages(harness, project, trust=False, on_ask="deny", additional_directories=[str(outside)])
    package = project / "packages" / "x"
    harness.api.script(
        driver.name, message(read(package / "one.txt"), read(project / "link" / "one.txt")), otherwise=DONE
    )
    driver.run_turn()
    assert driver.fetch_result_texts()[1].strip().endswith("words")
    assert list_texts(driver, 1) == []
    assert list_skills(harness, driver) == []
    harness.daemon.call("trust/grant", folder=str(project))
    assert list_skills(harness, driver) == ["feed", "groom", "shoe"]
