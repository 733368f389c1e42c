"""What the configuration says about commands: the profile, the sandbox, the background, and long results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ostler.tools.sandbox import probe_sandbox
from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.replies import calls, message, says

PROFILE = "export WHO=me\ngreet() { echo hello; }\nls() { echo a function; }\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "person"
    place.mkdir()
    (place / ".bash_profile").write_text(PROFILE)
    return place


def runs(stage: Stage, *given: Json, **session: Any) -> Talk:
    talk = stage.talk(**session)
    stage.api.script(talk.name, *(message(calls("Bash", each)) for each in given), message(says("Done.")))
    assert talk.turn()["reason"] == "completed"
    return talk


def bash_schema(talk: Talk) -> set[str]:
    [tool] = [tool for tool in talk.requests[0].body["tools"] if tool["name"] == "Bash"]
    return set(tool["input_schema"]["properties"])


def test_the_profile_is_there_for_what_was_allowed(own_stage: Callable[..., Stage], home: Path) -> None:
    stage = own_stage(HOME=str(home))
    talk = runs(
        stage,
        {"command": "greet && printenv WHO"},
        {"command": "ls"},
        rules={"allow": ["Bash(greet:*)", "Bash(printenv:*)"]},
    )
    assert talk.result_texts()[0] == "hello\nme"
    assert "a function" not in talk.result_texts()[1], "what passes by its words means just them"
    [kept] = stage.daemon.home.rglob("profile.bash")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_the_profile_can_be_left_out(own_stage: Callable[..., Stage], home: Path) -> None:
    stage = own_stage(HOME=str(home), OSTLER_TOOLS__SHELL_SNAPSHOT="false")
    talk = runs(stage, {"command": "greet; echo [$WHO]"}, rules={"allow": ["Bash"]})
    assert "greet: command not found" in talk.result_texts()[0]
    assert "[]" in talk.result_texts()[0]


def test_a_profile_that_hangs_is_told_in_the_log_and_holds_up_nobody_for_long(
    own_stage: Callable[..., Stage], home: Path
) -> None:
    (home / ".bash_profile").write_text("sleep 1000\n")
    stage = own_stage(HOME=str(home))
    talk = runs(stage, {"command": "echo ran >f; cat f"}, rules={"allow": ["Bash"]})
    assert talk.result_texts() == ["ran"]
    assert stage.daemon.stderr.count("profile_left_out") == 1
    talk.is_usable()


def test_functions_are_there_in_the_sandbox_too_and_cannot_be_changed_from_there(
    own_stage: Callable[..., Stage], home: Path
) -> None:
    if not (support := probe_sandbox()).works:
        pytest.skip(f"the sandbox does not work here: {support.reason}")
    stage = own_stage(HOME=str(home), OSTLER_SANDBOX__MODE="on")
    talk = runs(stage, {"command": "greet"}, rules={"allow": ["Bash"]})
    assert talk.result_texts() == ["hello"]
    assert talk.all("tool.completed")[0]["call"]["output"]["sandboxed"]
    [kept] = stage.daemon.home.rglob("profile.bash")
    before = kept.read_text()
    command = f"echo bad >>{kept}; rm -f {kept}; mv {kept} {kept}.x; greet"
    talk = stage.talk(rules={"allow": ["Bash"]})
    stage.api.script(talk.name, message(calls("Bash", {"command": command})), message(says("Done.")))
    turn = talk.start()
    talk.answer(talk.ask(), "allow")  # it names the daemon's own folder
    talk.ended(turn)
    assert kept.read_text() == before
    assert talk.result_texts()[0].endswith("hello")


def test_the_model_is_offered_what_the_configuration_allows(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_SANDBOX__MODEL_MAY_DISABLE="true", OSTLER_TOOLS__BACKGROUND="false")
    talk = runs(stage, rules={"allow": ["Bash"]})
    assert bash_schema(talk) == {"command", "timeout", "description", "dangerouslyDisableSandbox"}
    stage.api.script(
        talk.name,
        message(says("Done.")),
        message(calls("Bash", {"command": "echo out", "dangerously_disable_sandbox": True})),
        message(says("Done.")),
    )
    turn = talk.start()
    ask = talk.ask()
    assert "outside the sandbox" in ask["reason"], "whatever a rule allows"
    talk.answer(ask, "allow")
    talk.ended(turn)
    done = talk.all("tool.completed")[-1]["call"]
    assert (done["output"]["stdout"], done["output"]["sandboxed"]) == ("out\n", False)


def test_nothing_of_it_is_offered_by_default(stage: Stage) -> None:
    talk = runs(stage)
    assert bash_schema(talk) == {"command", "timeout", "description", "run_in_background"}


def test_a_long_output_says_where_all_of_it_is(stage: Stage) -> None:
    talk = runs(stage, {"command": "seq 20000; echo é"}, {"command": "echo short"}, rules={"allow": ["Bash"]})
    long, short = (data["call"] for data in talk.all("tool.completed"))
    assert long["result_id"]
    assert long["output"]["persisted_result_id"] == long["result_id"]
    whole = "".join(f"{number}\n" for number in range(1, 20001)) + "é"
    assert long["output"]["persisted_size"] == len(whole.encode())
    assert (short["output"]["persisted_result_id"], short["output"]["persisted_size"]) == (None, None)
