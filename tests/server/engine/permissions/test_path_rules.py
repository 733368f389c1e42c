"""Rules about paths: as they are written, as they really are, and what searches leave out."""

from pathlib import Path

import pytest

from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.replies import calls
from tests.support.model_replies import read, write
from tests.support.projects import OURS, decision, decisions, explained, output, project, rules, runs, talk_of

SECRET = "a secret word"


def with_secrets(stage: Stage, *denied: str, behavior: str = "deny") -> Path:
    """A project with open files and secret ones, and rules about reading them."""
    folder = project(stage, {OURS: rules(**{behavior: list(denied or ["Read(./secrets/**)"])})})
    (folder / "secrets" / "deep").mkdir(parents=True)
    for name in ("secrets/x", "secrets/deep/y", "open"):
        (folder / name).write_text(f"{SECRET}\n")
    (folder / "link").symlink_to("secrets/x")
    (folder / "linked").symlink_to("secrets")
    return folder


def searched(stage: Stage, folder: Path, tool: str, **given: object) -> Talk:
    return runs(stage, calls(tool, given), folder=folder)


@pytest.mark.parametrize("name", ["secrets/x", "secrets/../secrets/x", "link", "linked/x", "linked/deep/y"])
def test_read_does_not_open_what_a_rule_denies_by_any_name(stage: Stage, name: str) -> None:
    folder = with_secrets(stage)
    talk = runs(stage, read(folder / name), folder=folder)
    assert decisions(talk) == [("deny", "rule")]
    assert SECRET not in talk.result_texts()[0]


def test_a_link_to_a_denied_file_is_denied_by_a_rule_about_either_name(stage: Stage) -> None:
    folder = with_secrets(stage, "Read(link)")
    talk = runs(stage, read(folder / "link"), read(folder / "open"), folder=folder)
    assert decisions(talk) == [("deny", "rule"), ("allow", "read_only")]


def test_an_allow_rule_must_cover_the_link_and_where_it_leads(stage: Stage) -> None:
    outside = stage.folder / "outside-of-everything"
    outside.mkdir(exist_ok=True)
    (outside / "x").write_text("x\n")
    folder = project(stage)
    (folder / "link").symlink_to(outside / "x")
    talk = stage.talk(folder=folder, rules={"allow": ["Read(link)"]})
    assert explained(stage.daemon, talk.id, "Read", file_path=str(folder / "link"))["behavior"] == "ask"
    both = stage.talk(folder=folder, rules={"allow": ["Read(link)", f"Read(/{outside}/x)"]})
    assert explained(stage.daemon, both.id, "Read", file_path=str(outside / "x"))["behavior"] == "allow"


def test_creating_is_editing(stage: Stage) -> None:
    folder = project(stage, {OURS: rules(deny=["Edit(kept/**)"])})
    (folder / "kept").mkdir()
    talk = runs(stage, write(folder / "kept" / "new"), folder=folder, mode="acceptEdits")
    assert decision(talk)["rule"] == "Edit(kept/**)"
    assert not (folder / "kept" / "new").exists()


def test_an_edit_rule_allows_edit_and_write_inside_it_alone(stage: Stage) -> None:
    folder = project(stage)
    (folder / "src").mkdir()
    talk = runs(
        stage, write(folder / "src" / "a"), write(folder / "b"), folder=folder, rules={"allow": ["Edit(src/**)"]}
    )
    assert decisions(talk) == [("allow", "rule"), ("deny", "on_ask")]


def test_a_link_planted_in_an_allowed_folder_does_not_lead_a_write_out(stage: Stage) -> None:
    folder = project(stage)
    (folder / "src").mkdir()
    (folder / "precious").write_text("old\n")
    (folder / "src" / "a").symlink_to("../precious")
    talk = runs(stage, write(folder / "src" / "a"), folder=folder, rules={"allow": ["Edit(src/**)"]})
    assert talk.results()[0]["is_error"]
    assert (folder / "precious").read_text() == "old\n"


@pytest.mark.parametrize(
    ("rule", "denied"),
    [
        ("Read(//{folder}/secrets/x)", True),
        ("Read(/secrets/x)", True),
        ("Read(./secrets/x)", True),
        ("Read(x)", True),
        ("Read(*.txt)", False),
        ("Read(~/secrets/x)", False),
    ],
)
def test_where_a_pattern_starts_is_said_by_its_first_characters(stage: Stage, rule: str, denied: bool) -> None:
    folder = project(stage)
    text = rule.replace("/{folder}", str(folder))
    folder = with_secrets(stage, text) if "{folder}" not in rule else folder
    (folder / "secrets").mkdir(exist_ok=True)
    (folder / "secrets" / "x").write_text("x\n")
    talk = stage.talk(folder=folder, rules={"deny": [text]})
    found = explained(stage.daemon, talk.id, "Read", file_path=str(folder / "secrets" / "x"))
    assert (found["behavior"] == "deny") == denied


# Searches.


@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
@pytest.mark.parametrize("behavior", ["deny", "ask"])
def test_grep_leaves_out_what_rules_keep_from_being_read(stage: Stage, mode: str, behavior: str) -> None:
    folder = with_secrets(stage, behavior=behavior)
    talk = searched(stage, folder, "Grep", pattern="secret word", output_mode=mode)
    assert decisions(talk) == [("allow", "read_only")]
    assert output(talk)["filenames"] == ["open"]
    assert "secrets" not in talk.result_texts()[0]


def test_glob_leaves_out_what_rules_keep_from_being_read(stage: Stage) -> None:
    folder = with_secrets(stage)
    talk = searched(stage, folder, "Glob", pattern="**/[xyo]*")
    assert output(talk)["filenames"] == ["open"]


@pytest.mark.parametrize(
    ("tool", "given"),
    [("Grep", {"pattern": "secret", "head_limit": 1, "output_mode": "content"}), ("Glob", {"pattern": "**/*.txt"})],
)
def test_what_is_left_out_takes_no_place_from_what_is_shown(stage: Stage, tool: str, given: Json) -> None:
    folder = project(stage, {OURS: rules(deny=["Read(a/**)"])})
    (folder / "a").mkdir()
    for number in range(150):
        (folder / "a" / f"{number}.txt").write_text(f"{SECRET}\n")
    (folder / "b.txt").write_text(f"{SECRET}\n")
    talk = searched(stage, folder, tool, **given)
    assert output(talk)["filenames"] == ["b.txt"]
    assert not output(talk).get("truncated")
    assert output(talk).get("applied_limit") is None


@pytest.mark.parametrize("rule", ["Read(./secrets/**)", "Read(./secrets)", "Read(secrets/)"])
@pytest.mark.parametrize("start", ["secrets", "{folder}/secrets", "linked", "secrets/deep"])
@pytest.mark.parametrize("tool", ["Grep", "Glob"])
def test_a_search_that_starts_in_a_denied_place_is_refused(stage: Stage, rule: str, start: str, tool: str) -> None:
    folder = with_secrets(stage, rule)
    given = {"pattern": "*" if tool == "Glob" else "secret", "path": start.replace("{folder}", str(folder))}
    talk = searched(stage, folder, tool, **given)
    assert decisions(talk)[0][0] == "deny"
    assert SECRET not in talk.result_texts()[0]


def test_a_pattern_that_leads_into_a_denied_folder_is_refused(stage: Stage) -> None:
    folder = with_secrets(stage, "Read(./secrets)")
    for pattern in ("secrets/*", f"{folder}/secrets/deep/*"):
        talk = searched(stage, folder, "Glob", pattern=pattern)
        assert decisions(talk)[0][0] == "deny", pattern


def test_grep_in_a_denied_file_is_denied_by_its_rule(stage: Stage) -> None:
    folder = with_secrets(stage)
    talk = searched(stage, folder, "Grep", pattern="secret", path="secrets/x", output_mode="content")
    assert decision(talk)["rule"] == "Read(./secrets/**)"


def test_an_ask_rule_asks_before_a_file_is_read(stage: Stage) -> None:
    folder = with_secrets(stage, behavior="ask")
    talk = talk_of(stage, read(folder / "secrets" / "x"), folder=folder)
    turn_id = talk.start()
    ask = talk.ask()
    talk.answer(ask, "allow")
    talk.ended(turn_id)
    assert SECRET in talk.result_texts()[0]
