"""Skills over the wire: taken up by the model and by people, with their tools, models and agents."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ostler.tools.token_estimate import BYTES_PER_TOKEN
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import Block, calls, message, says
from tests.support.model_replies import DONE, bash, read

GROOM = """---
description: Grooms a horse
allowed-tools: Bash(touch:*)
argument-hint: HORSE
---
Groom $1 with $2. All of it: $ARGUMENTS.
"""


def put_skill(folder: Path, text: str = GROOM, name: str = "groom") -> Path:
    place = folder / ".ostler" / "skills" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "SKILL.md").write_text(text)
    return place


def open_project(harness: Harness, folder: Path, *steps: Any, trust: bool = True, **session: Any) -> SessionDriver:
    return harness.open_session(*steps, otherwise=DONE, folder=folder, trust=trust, **session)


def skill(name: str, args: str | None = None) -> Block:
    return calls("Skill", {"skill": name, **({"args": args} if args is not None else {})})


def describe_skill_tool(driver: SessionDriver, request: int = 0) -> str:
    tools: list[Json] = driver.requests[request].body["tools"]
    return next(str(tool["description"]) for tool in tools if tool["name"] == "Skill")


def list_last_texts(driver: SessionDriver, request: int = -1) -> list[str]:
    return [block["text"] for block in driver.requests[request].messages[-1]["content"] if block["type"] == "text"]


def test_the_model_takes_one_up_and_its_tools_are_allowed_for_the_rest_of_the_turn(
    harness: Harness, tmp_path: Path
) -> None:
    put_skill(tmp_path)
    driver = open_project(
        harness,
        tmp_path,
        message(skill("groom", "'the mare' brush")),
        message(bash("touch groomed")),
        DONE,
        message(bash("touch again")),
        on_ask="deny",
    )
    assert driver.run_turn()["denials"] == []
    assert "- groom: Grooms a horse" in describe_skill_tool(driver)
    (text,) = list_last_texts(driver, 1)
    assert "Groom the mare with brush. All of it: 'the mare' brush." in text
    assert text.startswith("<ostler-skill ")
    assert (tmp_path / "groomed").exists()
    assert [denial["tool"] for denial in driver.run_turn()["denials"]] == ["Bash"]
    assert not (tmp_path / "again").exists()


def test_a_person_takes_one_up_in_any_client(harness: Harness, tmp_path: Path) -> None:
    put_skill(tmp_path, GROOM.replace("argument-hint", "model: claude-haiku-4-5\nargument-hint"))
    driver = open_project(harness, tmp_path, on_ask="deny")
    # Without the tag that finds the script: the input begins with the slash.
    harness.api.script(driver.name, message(bash("touch groomed")), otherwise=DONE)
    text = f"/groom mare\n[{driver.name}]"
    turn = harness.daemon.call("run", session_id=driver.id, input=text)["turn"]
    assert (turn["reason"], turn["denials"]) == ("completed", [])
    first = driver.requests[0]
    said = [block["text"] for block in first.messages[0]["content"]]
    assert said[0] == text
    assert f"Groom mare with [{driver.name}]. All of it: mare\n[{driver.name}]." in said[1]
    assert first.body["model"] == "claude-haiku-4-5"
    assert (tmp_path / "groomed").exists()


def test_a_slash_that_is_no_skill_is_words(harness: Harness, tmp_path: Path) -> None:
    put_skill(tmp_path, "---\nuser-invocable: false\n---\nHidden.\n", "hidden")
    driver = open_project(harness, tmp_path)
    for words in ("/etc/hosts is a file", "/ groom", "/nothing here", "/hidden", "/"):
        text = f"{words} [{driver.name}]"
        harness.daemon.call("run", session_id=driver.id, input=text)
        assert list_last_texts(driver)[-1] == text


def test_only_people_take_up_what_the_model_may_not(harness: Harness, tmp_path: Path) -> None:
    put_skill(tmp_path, "---\ndisable-model-invocation: true\n---\nShip it.\n", "ship")
    driver = open_project(harness, tmp_path, message(skill("ship"), skill("shp"), skill("groom")))
    driver.run_turn()
    assert "ship" not in describe_skill_tool(driver)
    refused, misspelt, missing = driver.fetch_result_texts()
    assert "Only a person takes up the skill ship: they type /ship." in refused
    assert "There is no skill 'shp'" in misspelt
    assert "There is no skill 'groom'" in missing
    listed = harness.daemon.call("skill/list", session_id=driver.id)["skills"]
    assert [(each["name"], each["by_model"], each["by_person"]) for each in listed] == [("ship", False, True)]


def test_one_with_a_fork_is_the_work_of_an_agent_with_its_tools(harness: Harness, tmp_path: Path) -> None:
    name = f"fork-{tmp_path.name}"
    put_skill(tmp_path, f"---\ncontext: fork\nallowed-tools: Bash(touch:*)\n---\n[{name}] Groom $ARGUMENTS.\n")
    harness.api.script(name, message(bash("touch groomed")), otherwise=message(says("All clean.")))
    driver = open_project(harness, tmp_path, message(skill("groom", "the mare")), on_ask="deny")
    assert driver.run_turn()["denials"] == []
    assert driver.fetch_result_texts()[0].startswith("All clean.")
    assert "Groom the mare." in str(harness.api.list_requests(name)[0].messages[0])
    assert (tmp_path / "groomed").exists()
    (ended,) = [
        data["call"]["output"] for data in driver.list_event_data("tool.completed") if "skill" in data["call"]["output"]
    ]
    assert (ended["status"], ended["result"]) == ("completed", "All clean.")


def test_the_alias_takes_a_line_as_it_is_typed(harness: Harness, tmp_path: Path) -> None:
    put_skill(tmp_path)
    driver = open_project(harness, tmp_path, message(calls("SlashCommand", {"command": "/groom mare brush"})))
    driver.run_turn()
    assert "Groom mare with brush." in list_last_texts(driver)[0]


def test_rules_speak_of_skills_by_name(harness: Harness, tmp_path: Path) -> None:
    for name in ("groom", "yard"):
        put_skill(tmp_path, "Words.", name)
    place = tmp_path / ".claude" / "commands" / "git"
    place.mkdir(parents=True)
    (place / "tidy.md").write_text("Tidy.")
    driver = open_project(
        harness,
        tmp_path,
        message(skill("groom", "the mare"), skill("yard"), skill("git:tidy", "now")),
        rules={"deny": ["Skill(groom)", "Skill(git:*)"]},
    )
    driver.run_turn()
    denied, passed, under = driver.fetch_result_texts()
    assert "denied" in denied
    assert "The skill yard follows" in passed
    assert "denied" in under


def test_what_a_project_brings_is_trusted_first(harness: Harness, tmp_path: Path) -> None:
    put_skill(tmp_path)
    driver = open_project(harness, tmp_path, message(skill("groom")), trust=False)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert (ask["kind"], [each["text"] for each in ask["what"]]) == ("trust", ["skill groom allows Bash(touch:*)"])
    assert harness.daemon.call("skill/list", session_id=driver.id)["skills"] == []
    driver.answer(ask, "trust")
    driver.wait_for_turn_end(turn_id)
    # The list in the prompt is from before the trust, so that the model is told of it.
    assert any("- groom: Grooms a horse" in text for text in list_last_texts(driver, 0))
    assert "The skill groom follows" in driver.fetch_result_texts()[0]


def test_changes_are_told_and_nothing_that_was_sent_changes(harness: Harness, tmp_path: Path) -> None:
    place = put_skill(tmp_path, "Words.")
    driver = open_project(harness, tmp_path)
    driver.run_turn()
    put_skill(tmp_path, "---\ndescription: Feeds all\n---\nFeed.\n", "feed")
    driver.run_turn()
    (place / "SKILL.md").unlink()
    driver.run_turn()
    driver.run_turn()
    second, third, fourth = (list_last_texts(driver, at) for at in (1, 2, 3))
    assert "- feed: Feeds all" in second[0]
    assert "No longer there: groom" in third[0]
    assert len(fourth) == 1
    assert len({str(request.body["tools"]) for request in driver.requests}) == 1


def test_a_long_one_is_cut_and_says_where_the_rest_is(harness: Harness, tmp_path: Path) -> None:
    lines = "".join(f"line {number:06d}\n" for number in range(70_000))
    place = put_skill(tmp_path, f"---\ndescription: Long\n---\n{lines}")
    (place / "more.txt").write_text("what lies beside it\n")
    driver = open_project(harness, tmp_path, message(skill("groom")))
    driver.run_turn()
    (text,) = list_last_texts(driver)
    assert len(text) < 50_000
    assert f"characters; {place}/SKILL.md has the rest.)" in text
    assert f"Folder of this skill: {place}" in text


def test_files_beside_a_skill_of_the_person_are_read_unasked(
    own_harness: Callable[..., Harness], tmp_path: Path
) -> None:
    harness = own_harness()
    place = tmp_path / "home" / "skills" / "groom"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("Read more.txt.")
    (place / "more.txt").write_text("with a soft brush\n")
    (tmp_path / "home" / "other.txt").write_text("closed\n")
    driver = harness.open_session(
        message(read(place / "more.txt"), read(tmp_path / "home" / "other.txt")), DONE, on_ask="deny"
    )
    driver.run_turn()
    beside, closed = driver.fetch_result_texts()
    assert "with a soft brush" in beside
    assert "daemon's own folder" in closed


def test_one_that_changed_a_moment_ago_waits_for_the_next_turn(harness: Harness, tmp_path: Path) -> None:
    put_skill(tmp_path, "Words.")
    change = f"printf 'Other words.' > {tmp_path}/.ostler/skills/groom/SKILL.md"
    driver = open_project(
        harness, tmp_path, message(bash(change)), message(skill("groom")), DONE, message(skill("groom"))
    )
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "allow")
    driver.wait_for_turn_end(turn_id)
    driver.run_turn()
    _, changed, again = driver.fetch_result_texts()
    assert "was changed a moment ago" in changed or "The skill groom follows" in changed
    assert "The skill groom follows" in again


def test_the_list_keeps_to_its_share_of_the_window(harness: Harness, tmp_path: Path) -> None:
    for number in range(150):
        put_skill(tmp_path, f"---\ndescription: {'words ' * 60}\n---\nWords.\n", f"skill-{number:03d}")
    driver = open_project(harness, tmp_path, model="claude-haiku-4-5")
    driver.run_turn()
    described = describe_skill_tool(driver)
    assert "- skill-000: words" in described
    assert "- skill-149" in described
    assert len(described) < 200_000 * 0.01 * BYTES_PER_TOKEN + 1_000


def test_the_tools_of_a_turn_outlive_a_restart(own_harness: Callable[..., Harness], tmp_path: Path) -> None:
    harness = own_harness()
    project = tmp_path / "project"
    project.mkdir()
    put_skill(project)
    driver = open_project(
        harness,
        project,
        message(skill("groom")),
        message(calls("AskingGate", {"path": str(project / "gate")})),
        message(bash("touch after")),
        DONE,
    )
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    harness.restart()
    (project / "gate").touch()
    driver.answer(ask, "allow")
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], (project / "after").exists()) == ("completed", True)
