"""The Agent tool: a child session that works for a call, seen over the wire."""

import itertools
from typing import Any

import pytest

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.hooks import make_project_with_hook, read_hook_inputs
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.failures import fails
from tests.support.messages_api.replies import Block, calls, hold, message, says
from tests.support.messages_api.scripts import Step
from tests.support.model_replies import DONE, bash, read, write

_numbers = itertools.count(1)


def agent(harness: Harness, *steps: Step, otherwise: Step | None = None, **given: Any) -> Block:
    """A call that starts an agent with a script of its own."""
    name = f"agent-{next(_numbers)}"
    harness.api.script(name, *steps, otherwise=otherwise)
    return calls("Agent", {"description": "Look around", "prompt": f"[{name}] Look around.", **given})


def report(text: str = "Found it.") -> Any:
    return message(says(text))


def open_with(harness: Harness, *blocks: Block, **session: Any) -> SessionDriver:
    """A session whose first message makes these calls, and which then is done."""
    return harness.open_session(message(*blocks), otherwise=DONE, **session)


def last_output(driver: SessionDriver) -> Json:
    outputs = [data["call"] for data in driver.list_event_data("tool.completed") if data["call"]["tool"] == "Agent"]
    found: Json = outputs[-1]["output"]
    return found


def find_child(driver: SessionDriver) -> Json:
    created = [data["session"] for data in driver.list_event_data("session.created")]
    found: Json = next(session for session in created if session["parent_id"] is not None)
    return found


def test_an_agent_does_its_work_and_its_last_words_are_the_result(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("a.txt", "hello\n")
    harness.api.script(
        driver.name,
        message(agent(harness, message(read(path)), report("It says hello."), name="scout")),
        otherwise=DONE,
    )
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    child = find_child(driver)
    output = last_output(driver)
    assert (output["status"], output["result"], output["agent_id"]) == ("completed", "It says hello.", child["id"])
    assert (output["tool_calls"], output["error"]) == (1, None)
    assert driver.fetch_result_texts() == [f"It says hello.\n\n(agent {child['id']})"]
    assert (child["parent_id"], child["root_id"], child["title"]) == (driver.id, driver.id, "scout")
    mine = [event for event in driver.seen if event["session_id"] == child["id"]]
    assert {event["root_id"] for event in mine} == {driver.id}
    assert {"turn.started", "tool.started", "tool.completed", "turn.ended"} <= {event["type"] for event in mine}
    assert all(one["id"] != child["id"] for one in harness.daemon.call("session/list", limit=500)["sessions"])


def test_what_it_uses_counts_for_the_turn_and_the_session_above(harness: Harness) -> None:
    driver = open_with(harness, agent(harness, report()))
    turn = driver.run_turn()
    child = harness.daemon.call("session/get", session_id=find_child(driver)["id"])
    assert len(driver.requests) == 2
    used = child["usage"]["output_tokens"]
    assert used > 0
    assert turn["usage"]["output_tokens"] == 3 * used  # the scripted model says so of every answer
    assert driver.fetch_state()["usage"] == turn["usage"]
    assert turn["model_requests"] == 2
    harness.daemon.call("session/update", session_id=driver.id, title="read again from the rows")
    assert driver.fetch_state()["usage"] == turn["usage"]


def test_several_work_beside_each_other(harness: Harness) -> None:
    first, second = Gate(), Gate()
    driver = open_with(
        harness,
        agent(harness, message(says("one", hold(first)))),
        agent(harness, message(says("two", hold(second)))),
    )
    turn_id = driver.start()
    for _ in range(2):
        driver.wait("session.created", lambda data: data["session"]["parent_id"] is not None)
    second.open()
    driver.wait("turn.ended", lambda data: data["turn"]["result_text"] == "two")
    first.open()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert [text.split("\n")[0] for text in driver.fetch_result_texts()] == ["one", "two"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subagent_type": "explorer"}, "There is no kind of agent 'explorer'. Did you mean Explore?"),
        ({"cwd": "/"}, "cwd '/' is outside of the folders of this session."),
        ({"cwd": "sub"}, "cwd 'sub' is relative. Give the absolute path of a folder."),
        ({"allowed_tools": ["Raed"]}, "allowed_tools names tools that there are not: Raed."),
        ({"max_turns": 0}, "max_turns"),
        ({"mode": "yolo"}, "mode"),
    ],
)
def test_what_cannot_be_started_says_why(harness: Harness, given: Json, words: str) -> None:
    driver = open_with(harness, agent(harness, report(), **given))
    assert driver.run_turn()["reason"] == "completed"
    (text,) = driver.fetch_result_texts()
    assert words in text
    assert not [one for one in driver.list_event_data("session.created") if one["session"]["parent_id"]]


def test_the_old_name_works(harness: Harness) -> None:
    block = agent(harness, report())
    driver = open_with(harness, Block({**block.start, "name": "Task"}, block.pieces))
    driver.run_turn()
    assert last_output(driver)["status"] == "completed"


def test_it_has_the_tools_of_its_kind_and_never_those_of_the_main_session(harness: Harness) -> None:
    names = ["agent-all", "agent-explore", "agent-few"]
    for name in names:
        harness.api.script(name, report())
    given: list[Json] = [{}, {"subagent_type": "Explore"}, {"allowed_tools": ["Read", "Agent"]}]
    driver = open_with(
        harness,
        *(
            calls("Agent", {"description": "a", "prompt": f"[{name}] Go.", **more})
            for name, more in zip(names, given, strict=True)
        ),
    )
    driver.run_turn()
    mine = [tool["name"] for tool in driver.requests[0].body["tools"]]
    theirs = [[tool["name"] for tool in harness.api.list_requests(name)[0].body["tools"]] for name in names]
    assert "Agent" in mine
    of_the_session = {"Agent", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode"}
    assert of_the_session <= set(mine)
    assert theirs == [
        [name for name in mine if name not in of_the_session],
        ["Bash", "Glob", "Grep", "Read"],
        ["Read"],
    ]


def test_its_ask_reaches_the_clients_of_the_root_with_its_name(harness: Harness) -> None:
    driver = open_with(harness, agent(harness, message(bash("touch it")), report(), name="toucher"))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    child = find_child(driver)
    assert (ask["session_id"], ask["root_id"]) == (child["id"], driver.id)
    assert ask["agent"] == {"name": "toucher", "kind": "general-purpose"}
    assert driver.fetch_state()["asks"] == [ask]
    assert harness.daemon.call("ask/list", session_id=driver.id)["asks"] == [ask]
    waited = harness.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=60_000)
    assert (waited["status"], driver.fetch_state()["status"]) == ("waiting", "waiting")
    driver.answer(ask, "allow")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    updated = [data["turn"] for data in driver.list_event_data("turn.updated")]
    assert [turn["status"] for turn in updated if turn["id"] == turn_id] == ["waiting", "running"]
    assert (driver.folder / "it").exists()


def test_a_no_is_reported_back_and_stops_nobody(harness: Harness) -> None:
    driver = open_with(harness, agent(harness, message(bash("touch it")), report("I may not."), name="toucher"))
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "deny")
    turn = driver.wait_for_turn_end(turn_id)
    assert turn["reason"] == "completed"
    assert last_output(driver)["result"] == "I may not."
    (denial,) = turn["denials"]
    assert (denial["tool"], denial["agent"]) == ("Bash", {"name": "toucher", "kind": "general-purpose"})
    child = find_child(driver)
    (result,) = harness.daemon.call("session/messages", session_id=child["id"])["messages"][2]["content"]
    assert "report back" in result["content"][0]["text"]


def test_what_is_remembered_holds_for_the_whole_tree(harness: Harness) -> None:
    driver = harness.open_session()
    harness.api.script(
        driver.name,
        message(agent(harness, message(bash("touch it")), message(bash("touch it")), report())),
        message(bash("touch it")),
        otherwise=DONE,
    )
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    driver.answer(ask, "allow_always", rule="Bash(touch it)", scope="session")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert len(driver.list_event_data("ask.opened")) == 1
    rules = harness.daemon.call("rule/list", session_id=driver.id)["rules"]
    assert [rule["rule"] for rule in rules if rule["source"] == "session"] == ["Bash(touch it)"]


def test_a_headless_run_binds_its_agents(harness: Harness) -> None:
    driver = open_with(harness, agent(harness, message(bash("touch it")), report()))
    ran = harness.daemon.call("run", session_id=driver.id, input=driver.tag_input("Go on."), on_ask="deny")
    assert ran["turn"]["reason"] == "completed"
    assert [denial["agent"]["kind"] for denial in ran["turn"]["denials"]] == ["general-purpose"]
    assert not (driver.folder / "it").exists()


@pytest.mark.parametrize("mode", ["plan", "dontAsk"])
def test_its_mode_only_narrows(harness: Harness, mode: str) -> None:
    driver = harness.open_session(mode=mode)
    block = agent(harness, message(write(driver.folder / "new")), report(), mode="acceptEdits")
    harness.api.script(driver.name, message(block), otherwise=DONE)
    turn = driver.run_turn()
    assert [denial["tool"] for denial in turn["denials"]] == ["Write"]
    assert find_child(driver)["mode"] == mode
    assert not (driver.folder / "new").exists()


def test_a_narrower_mode_is_kept(harness: Harness) -> None:
    driver = harness.open_session(mode="acceptEdits")
    block = agent(harness, message(write(driver.folder / "new")), report(), mode="plan")
    harness.api.script(driver.name, message(block), otherwise=DONE)
    assert [denial["tool"] for denial in driver.run_turn()["denials"]] == ["Write"]


def test_a_folder_of_its_own_is_its_only_one(harness: Harness) -> None:
    driver = harness.open_session(mode="dontAsk")
    inner = driver.folder / "inner"
    inner.mkdir()
    (inner / "b.txt").write_text("inside\n")
    outer = driver.write_file("a.txt", "outside\n")
    block = agent(harness, message(read(inner / "b.txt")), message(read(outer)), report(), cwd=str(inner))
    harness.api.script(driver.name, message(block), otherwise=DONE)
    turn = driver.run_turn()
    assert [denial["input"] for denial in turn["denials"]] == [{"file_path": outer}]
    assert find_child(driver)["cwd"] == str(inner)


def test_an_error_of_the_model_is_no_completion(harness: Harness) -> None:
    driver = open_with(harness, agent(harness, otherwise=fails(400, "no such thing")))
    assert driver.run_turn()["reason"] == "completed"
    output = last_output(driver)
    assert (output["status"], output["result"]) == ("failed", "")
    assert "no such thing" in output["error"]
    assert driver.fetch_results()[0]["is_error"] is True


def test_an_answer_without_a_word_is_no_completion(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("a.txt", "hello\n")
    block = agent(harness, message(says("Let me look."), read(path)), message(says(" ")))
    harness.api.script(driver.name, message(block), otherwise=DONE)
    driver.run_turn()
    output = last_output(driver)
    assert (output["status"], output["error"]) == ("failed", "It ended without a word.")


def test_its_number_of_requests_is_bounded(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("a.txt", "hello\n")
    block = agent(harness, otherwise=message(says("Again."), read(path)), max_turns=2)
    harness.api.script(driver.name, message(block), otherwise=DONE)
    driver.run_turn()
    output = last_output(driver)
    assert (output["status"], output["result"], output["tool_calls"]) == ("failed", "Again.", 2)
    assert "as many requests" in output["error"]


def test_interrupting_the_parent_stops_it(harness: Harness) -> None:
    driver = open_with(
        harness, agent(harness, message(says("So far."), bash("tail -f /dev/null"))), rules={"allow": ["Bash"]}
    )
    turn_id = driver.start()
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Bash")
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    child = harness.daemon.call("session/get", session_id=find_child(driver)["id"])
    assert (child["status"], child["turn"]) == ("idle", None)
    ended = [one["turn"] for one in driver.list_event_data("turn.ended")]
    assert [turn["reason"] for turn in ended] == ["interrupted", "interrupted"]
    assert "So far." in driver.fetch_result_texts()[0]
    driver.expect_usable()


def test_interrupting_the_agent_alone_leaves_its_parent(harness: Harness) -> None:
    driver = open_with(harness, agent(harness, message(says("So far."), calls("Sleep", {"seconds": 60}))))
    turn_id = driver.start()
    started = driver.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    harness.daemon.call("turn/interrupt", turn_id=started["turn_id"])
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    output = last_output(driver)
    assert (output["status"], output["result"]) == ("interrupted", "So far.")


def test_one_budget_binds_the_tree(harness: Harness) -> None:
    driver = harness.open_session(max_budget_usd="0.0001", model="claude-sonnet-5")
    path = driver.write_file("a.txt", "hello\n")
    block = agent(harness, otherwise=message(says("Again."), read(path)))
    harness.api.script(driver.name, message(block), otherwise=DONE)
    turn = driver.run_turn()
    assert turn["reason"] == "budget"


def test_deleting_the_parent_deletes_it(harness: Harness) -> None:
    driver = open_with(harness, agent(harness, message(calls("Sleep", {"seconds": 60}))))
    driver.start()
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Sleep")
    child = find_child(driver)
    deleted = harness.daemon.call("session/delete", session_id=driver.id)["session_ids"]
    assert deleted == [driver.id, child["id"]]
    assert harness.daemon.expect_error("session/get", session_id=child["id"])["data"]["code"] == "session_not_found"


def test_what_a_deleted_agent_has_used_stays_in_the_sum_of_its_parent(harness: Harness) -> None:
    driver = open_with(harness, agent(harness, message(agent(harness, report())), report()))
    driver.run_turn()
    before = driver.fetch_state()["usage"]
    child = find_child(driver)["id"]
    assert harness.daemon.call("session/get", session_id=child)["usage"]["input_tokens"] > 0
    harness.daemon.call("session/delete", session_id=child)
    assert driver.fetch_state()["usage"] == before


def test_a_mention_in_a_prompt_reads_no_file(harness: Harness) -> None:
    driver = harness.open_session(rules={"deny": ["Read"]})
    driver.write_file("secret.txt", "hidden\n")
    harness.api.script("agent-mention", report())
    block = calls("Agent", {"description": "a", "prompt": "[agent-mention] Look at @secret.txt"})
    harness.api.script(driver.name, message(block), otherwise=DONE)
    driver.run_turn()
    (request,) = harness.api.list_requests("agent-mention")
    assert "hidden" not in str(request.body["messages"])


def test_its_prompt_says_that_it_is_one(harness: Harness) -> None:
    harness.api.script("agent-plan", report())
    block = calls("Agent", {"description": "a", "prompt": "[agent-plan] Plan.", "subagent_type": "Plan"})
    driver = open_with(harness, block, instructions="Speak like a pirate.")
    driver.run_turn()
    (request,) = harness.api.list_requests("agent-plan")
    system = request.body["system"][0]["text"]
    assert "You are an agent" in system
    assert "You design how a change could be made" in system
    assert "Speak like a pirate." in system
    assert "You are an agent" not in driver.requests[0].body["system"][0]["text"]


def test_its_start_and_its_end_fire_hooks_of_their_own(harness: Harness) -> None:
    folder = make_project_with_hook(harness, "SubagentStop", {"decision": "block", "reason": "Count again."})
    driver = harness.open_session(folder=folder, trust=True)
    block = agent(harness, report("One."), otherwise=report("Two."), subagent_type="Explore")
    harness.api.script(driver.name, message(block), otherwise=DONE)
    driver.run_turn()
    child = find_child(driver)
    first = read_hook_inputs(folder)[0]
    assert (first["hook_event_name"], first["agent_id"], first["agent_type"]) == (
        "SubagentStop",
        child["id"],
        "Explore",
    )
    assert [one["stop_hook_active"] for one in read_hook_inputs(folder)[:2]] == [False, True]
    assert last_output(driver)["result"] == "Two."


def test_a_hook_of_its_start_gives_it_context(harness: Harness) -> None:
    folder = make_project_with_hook(harness, "SubagentStart", "echo Mind the gap.", matcher="general-purpose")
    driver = harness.open_session(folder=folder, trust=True)
    harness.api.script("agent-gap", report())
    block = calls("Agent", {"description": "a", "prompt": "[agent-gap] Go."})
    harness.api.script(driver.name, message(block), otherwise=DONE)
    driver.run_turn()
    (request,) = harness.api.list_requests("agent-gap")
    assert "Mind the gap." in str(request.body["messages"])
    assert "Mind the gap." not in str(driver.requests[0].body["messages"])


def test_an_item_that_an_agent_begins_is_its_own_and_on_its_own_list(harness: Harness) -> None:
    steps = (
        calls("TaskCreate", {"subject": "Look", "description": ""}),
        calls("TaskUpdate", {"taskId": "1", "status": "in_progress"}),
    )
    driver = open_with(harness, agent(harness, *map(message, steps), report(), name="scout"))
    driver.run_turn()
    mine = harness.daemon.call("todo/list", session_id=driver.id)["todos"]
    theirs = harness.daemon.call("todo/list", session_id=find_child(driver)["id"])["todos"]
    assert (mine, [(todo["subject"], todo["owner"]) for todo in theirs]) == ([], [("Look", "scout")])
