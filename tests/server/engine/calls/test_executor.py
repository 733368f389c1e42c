"""The calls of one message: in order, beside each other where that is safe."""

from tests.support.driver import Harness, SessionDriver, is_gone
from tests.support.hooks import make_project_with_hook
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import Block, calls, calls_raw, hold, message
from tests.support.model_replies import DONE, bash


def safe_gate(driver: SessionDriver, name: str) -> Block:
    return calls("Gate", {"path": driver.get_gate_path(name), "safe": True})


def gate(driver: SessionDriver, name: str) -> Block:
    return calls("Gate", {"path": driver.get_gate_path(name)})


def test_a_read_behind_an_edit_sees_what_was_edited(harness: Harness) -> None:
    driver = harness.open_session(mode="acceptEdits")
    a, b = driver.write_file("a.txt", "alpha\n"), driver.write_file("b.txt", "beta\n")
    edit = {"file_path": b, "old_string": "beta", "new_string": "gamma"}
    read = [calls("Read", {"file_path": path}) for path in (a, b)]
    harness.api.script(driver.name, message(*read), message(read[0], calls("Edit", edit), read[1]), DONE)
    driver.run_turn()
    texts = driver.fetch_result_texts()
    assert "gamma" in texts[-1]
    order = driver.list_call_events()[-9:]
    assert order.index(("started", 1)) > order.index(("completed", 0))
    assert order.index(("started", 2)) > order.index(("completed", 1))
    driver.expect_usable()


def test_an_unsafe_call_that_waits_holds_back_the_safe_ones_behind_it(harness: Harness) -> None:
    driver = harness.open_session()
    harness.api.script(driver.name, message(safe_gate(driver, "a"), gate(driver, "b"), safe_gate(driver, "c")), DONE)
    turn_id = driver.start()
    driver.wait_at_gate("a")
    driver.wait("tool.queued", lambda data: data["call"]["call_id"].endswith("#2"))
    driver.open_gate("c")
    driver.open_gate("b")
    driver.open_gate("a")
    driver.wait_for_turn_end(turn_id)
    assert [event for event in driver.list_call_events() if event[0] != "queued"] == [
        ("started", 0),
        ("completed", 0),
        ("started", 1),
        ("completed", 1),
        ("started", 2),
        ("completed", 2),
    ]
    assert driver.fetch_result_texts() == ["passed a", "passed b", "passed c"]
    driver.expect_usable()


def test_an_unknown_tool_holds_back_nobody(harness: Harness) -> None:
    driver = harness.open_session()
    blocks = [safe_gate(driver, "a"), calls("NoSuchTool", {}), safe_gate(driver, "b")]
    harness.api.script(driver.name, message(*blocks), DONE)
    turn_id = driver.start()
    driver.wait_at_gate("a")
    driver.wait_at_gate("b")
    driver.open_gate("b")
    driver.open_gate("a")
    driver.wait_for_turn_end(turn_id)
    first, unknown, last = driver.fetch_result_texts()
    assert (first, last) == ("passed a", "passed b")
    assert "NoSuchTool" in unknown
    driver.expect_usable()


def test_a_call_that_a_hook_holds_up_is_told_as_queued_and_in_the_order_of_the_blocks(harness: Harness) -> None:
    folder = make_project_with_hook(harness, "PreToolUse", "until test -e go; do sleep 0.02; done", matcher="Read")
    (folder / "a.txt").write_text("a\n")
    driver = harness.open_session(folder=folder, trust=True)
    read = calls("Read", {"file_path": str(folder / "a.txt")})
    harness.api.script(driver.name, message(read, calls("NoSuchTool", {}), safe_gate(driver, "b")), DONE)
    turn_id = driver.start()
    driver.wait("tool.started", lambda data: data["call"]["call_id"].endswith("#2"))
    told = driver.list_call_events()
    assert [event for event in told if event[0] == "queued"] == [("queued", 0), ("queued", 1), ("queued", 2)]
    assert ("started", 0) not in told
    (folder / "go").touch()
    driver.open_gate("b")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    driver.expect_usable()


def test_safe_calls_run_beside_each_other_and_are_delivered_in_order(harness: Harness) -> None:
    driver = harness.open_session()
    harness.api.script(driver.name, message(*(safe_gate(driver, name) for name in "abc")), DONE)
    turn_id = driver.start()
    for name in "abc":
        driver.wait_at_gate(name)
    for at, name in ((2, "c"), (0, "a"), (1, "b")):
        driver.open_gate(name)
        assert driver.wait("tool.completed")["data"]["call"]["call_id"].endswith(f"#{at}")
    driver.wait_for_turn_end(turn_id)
    assert [at for kind, at in driver.list_call_events() if kind == "completed"] == [2, 0, 1]
    assert driver.fetch_result_texts() == ["passed a", "passed b", "passed c"]
    driver.expect_usable()


def test_a_call_that_cannot_be_read_waits_for_its_turn_like_an_unsafe_one(harness: Harness) -> None:
    driver = harness.open_session()
    unreadable = calls_raw("Gate", '{"safe": true')
    harness.api.script(driver.name, message(safe_gate(driver, "a"), unreadable, safe_gate(driver, "c")), DONE)
    turn_id = driver.start()
    driver.wait_at_gate("a")
    driver.wait("tool.queued", lambda data: data["call"]["call_id"].endswith("#2"))
    driver.open_gate("c")
    driver.open_gate("a")
    driver.wait_for_turn_end(turn_id)
    assert [event for event in driver.list_call_events() if event[0] != "queued"] == [
        ("started", 0),
        ("completed", 0),
        ("completed", 1),
        ("started", 2),
        ("completed", 2),
    ]
    driver.expect_usable()


def test_what_calls_beside_each_other_change_counts_in_the_order_of_the_calls(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    folders = {name: driver.folder / f"folder-{name}" for name in "ab"}
    for folder in folders.values():
        folder.mkdir()
    moves = [
        calls("Gate", {"path": driver.get_gate_path(name), "safe": True, "folder": str(folder)})
        for name, folder in folders.items()
    ]
    harness.api.script(driver.name, message(*moves), message(bash("pwd")), DONE)
    turn_id = driver.start()
    for name in "ab":
        driver.wait_at_gate(name)
    for name in "ba":
        driver.open_gate(name)
        driver.wait("tool.completed")
    driver.wait_for_turn_end(turn_id)
    assert driver.fetch_result_texts()[-1].strip() == str(folders["b"])


def test_commands_that_run_are_stopped_when_one_beside_them_fails(harness: Harness) -> None:
    driver = harness.open_session()
    shells = [
        calls("ShellGate", {"path": driver.get_gate_path(name), "safe": True, "fails": name == "b"})
        for name in ("never", "b")
    ]
    harness.api.script(driver.name, message(*shells, safe_gate(driver, "c")), DONE)
    turn_id = driver.start()
    for name in ("never", "b", "c"):
        driver.wait_at_gate(name)
    driver.open_gate("b")
    stopped = driver.wait("tool.completed", lambda data: data["call"]["call_id"].endswith("#0"))["data"]["call"]
    assert "Cancelled: parallel tool call" in stopped["content"][0]["text"]
    driver.open_gate("c")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert driver.fetch_result_texts()[2] == "passed c"
    driver.expect_usable()


def test_the_limit_of_the_configuration_holds(impatient_harness: Harness) -> None:
    driver = impatient_harness.open_session()
    impatient_harness.api.script(driver.name, message(*(safe_gate(driver, name) for name in "abcde")), DONE)
    turn_id = driver.start()
    for name in "abcde":
        driver.wait_at_gate(name)
        driver.open_gate(name)
    driver.wait_for_turn_end(turn_id)
    running, most = 0, 0
    for kind, _ in driver.list_call_events():
        running += {"queued": 0, "started": 1, "completed": -1}[kind]
        most = max(most, running)
    assert most == 2
    driver.expect_usable()


def test_at_most_ten_calls_are_under_way_at_once(harness: Harness) -> None:
    driver = harness.open_session(message(*(calls("TestingPermission", {}) for _ in range(13))), DONE)
    turn_id = driver.start()
    asks = [driver.wait_for_ask() for _ in range(10)]
    driver.wait("message.completed", lambda data: data["message"]["role"] == "assistant")
    assert len(harness.daemon.call("ask/list", session_id=driver.id)["asks"]) == 10
    assert sorted(int(ask["call"]["call_id"].rpartition("#")[2]) for ask in asks) == list(range(10))
    for _ in range(3):
        driver.answer(asks.pop(), "allow")
        asks.append(driver.wait_for_ask())
    for ask in asks:
        driver.answer(ask, "allow")
    assert driver.wait_for_turn_end(turn_id)["tool_calls"] == 13
    kinds = driver.list_event_types("ask.opened", "ask.resolved")
    assert kinds[:10] == ["ask.opened"] * 10
    assert kinds[10] == "ask.resolved"
    assert driver.fetch_result_texts() == ["The test ran."] * 13
    driver.expect_usable()


def test_a_call_whose_ask_is_answered_runs_while_another_one_waits(harness: Harness) -> None:
    driver = harness.open_session(message(calls("TestingPermission", {}), calls("TestingPermission", {})), DONE)
    turn_id = driver.start()
    first, second = driver.wait_for_ask(), driver.wait_for_ask()
    driver.answer(second, "allow")
    done = driver.wait("tool.completed")["data"]["call"]
    assert done["call_id"] == second["call"]["call_id"]
    state = driver.fetch_state()
    assert (state["status"], [ask["id"] for ask in state["asks"]]) == ("waiting", [first["id"]])
    driver.answer(first, "allow")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert driver.list_event_types("turn.updated") == ["turn.updated", "turn.updated"]
    driver.expect_usable()


def test_a_failed_command_cancels_the_commands_beside_it_and_nobody_else(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    path = driver.write_file("a.txt", "alpha\n")
    harness.api.script(
        driver.name,
        message(bash("exit 3"), calls("Read", {"file_path": path}), bash("touch never"), gate(driver, "g")),
        DONE,
    )
    driver.open_gate("g")
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    texts = driver.fetch_result_texts()
    assert "exit code 3" in texts[0]
    assert "alpha" in texts[1]
    assert "Cancelled: parallel tool call" in texts[2]
    assert texts[3] == "passed g"
    assert [result.get("is_error", False) for result in driver.fetch_results()] == [True, False, True, False]
    assert not (driver.folder / "never").exists()
    driver.expect_usable()


def test_a_command_that_is_written_after_another_failed_does_not_start(harness: Harness) -> None:
    stop = Gate()
    driver = harness.open_session(rules={"allow": ["Bash"]})
    harness.api.script(driver.name, message(bash("exit 3"), hold(stop), bash("touch never")), DONE)
    turn_id = driver.start()
    driver.wait("tool.completed")
    stop.open()
    driver.wait_for_turn_end(turn_id)
    assert "Cancelled: parallel tool call" in driver.fetch_result_texts()[1]
    assert not (driver.folder / "never").exists()
    driver.expect_usable()


def test_a_command_that_is_refused_cancels_its_siblings_too(harness: Harness) -> None:
    driver = harness.open_session(
        message(bash("forbidden"), bash("touch never")), DONE, rules={"allow": ["Bash"], "deny": ["Bash(forbidden)"]}
    )
    turn = driver.run_turn()
    assert turn["reason"] == "completed"
    assert [denial["tool"] for denial in turn["denials"]] == ["Bash"]
    assert "Cancelled: parallel tool call" in driver.fetch_result_texts()[1]
    driver.expect_usable()


def test_an_invalid_command_cancels_its_siblings_too(harness: Harness) -> None:
    driver = harness.open_session(
        message(calls("Bash", {"cmd": "x"}), bash("touch never")), DONE, rules={"allow": ["Bash"]}
    )
    driver.run_turn()
    assert "Cancelled: parallel tool call" in driver.fetch_result_texts()[1]
    assert not (driver.folder / "never").exists()
    driver.expect_usable()


def test_a_failed_read_cancels_nobody(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    missing = calls("Read", {"file_path": driver.get_gate_path("missing.txt")})
    failing = calls("Gate", {"path": driver.write_file("go"), "fails": True})
    harness.api.script(driver.name, message(missing, failing, bash("echo fine")), DONE)
    driver.run_turn()
    assert [result.get("is_error", False) for result in driver.fetch_results()] == [True, True, False]
    assert driver.fetch_result_texts()[2] == "fine"
    driver.expect_usable()


def test_the_folder_of_the_shell_moves_with_cd(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    (driver.folder / "inner").mkdir()
    harness.api.script(driver.name, message(bash("cd inner"), bash("pwd")), message(bash("pwd")), DONE)
    driver.run_turn()
    assert driver.fetch_result_texts()[1:] == [str(driver.folder / "inner")] * 2


def test_one_call_can_be_cancelled_while_the_turn_goes_on(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    harness.api.script(driver.name, message(bash("echo $$ > pid; exec sleep 1000"), gate(driver, "g")), DONE)
    turn_id = driver.start()
    pid = int(driver.wait_for_file("pid"))
    call = driver.wait("tool.started")["data"]["call"]
    harness.daemon.call("tool/cancel", call_id=call["call_id"])
    driver.open_gate("g")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert is_gone(pid)
    assert "Stopped by the person" in driver.fetch_result_texts()[0]
    assert driver.fetch_result_texts()[1] == "passed g"
    error = driver.expect_error("tool/cancel", call_id=call["call_id"])
    assert (error["data"]["code"], "#" in error["data"]["call_id"]) == ("no_turn_running", True)
    driver.expect_usable()


def test_a_waiting_command_that_is_cancelled_cancels_the_commands_beside_it(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    blocks = [gate(driver, "g"), bash("touch one"), bash("touch two"), gate(driver, "g")]
    harness.api.script(driver.name, message(*blocks), DONE)
    turn_id = driver.start()
    driver.wait_at_gate("g")
    waiting = driver.wait("tool.queued", lambda data: data["call"]["call_id"].endswith("#1"))["data"]["call"]
    driver.wait("tool.queued", lambda data: data["call"]["call_id"].endswith("#3"))
    harness.daemon.call("tool/cancel", call_id=waiting["call_id"])
    driver.open_gate("g")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    first, one, two, last = driver.fetch_result_texts()
    assert (first, last) == ("passed g", "passed g")
    assert "Stopped by the person" in one
    assert "Cancelled: parallel tool call" in two
    assert not (driver.folder / "two").exists()
    driver.expect_usable()


def test_the_events_of_a_call_carry_its_whole_state(harness: Harness) -> None:
    driver = harness.open_session(message(bash("echo hello")), DONE, rules={"allow": ["Bash(echo hello)"]})
    driver.run_turn()
    queued, started, done = (
        driver.list_event_data(f"tool.{kind}")[0]["call"] for kind in ("queued", "started", "completed")
    )
    assert [call["status"] for call in (queued, started, done)] == ["queued", "running", "completed"]
    assert (done["tool"], done["summary"], done["activity"]) == ("Bash", "echo hello", "run")
    assert done["output"]["exit_code"] == 0
    assert done["decision"] == {
        "behavior": "allow",
        "by": "rule",
        "rule": "Bash(echo hello)",
        "source": "flag",
        "reason": None,
        "decided_at": done["decision"]["decided_at"],
    }
    assert done["duration_ms"] >= 0
    assert done["started_at"] == started["started_at"]


def test_many_sessions_run_at_once(harness: Harness) -> None:
    drivers = [harness.open_session(rules={"allow": ["Bash"]}) for _ in range(12)]
    for driver in drivers:
        harness.api.script(driver.name, message(bash("echo one"), gate(driver, "g")), message(bash("echo two")), DONE)
    turns = [driver.start() for driver in drivers]
    for driver in drivers:
        driver.wait_at_gate("g")
    for driver in drivers:
        driver.open_gate("g")
    assert {driver.wait_for_turn_end(turn)["reason"] for driver, turn in zip(drivers, turns, strict=True)} == {
        "completed"
    }
    assert all(driver.fetch_result_texts() == ["one", "passed g", "two"] for driver in drivers)
