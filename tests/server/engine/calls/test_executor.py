"""The calls of one message: in order, beside each other where that is safe."""

from tests.support.driver import Stage, Talk, is_gone
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import Block, calls, calls_raw, hold, message
from tests.support.model_replies import DONE, bash


def safe_gate(talk: Talk, name: str) -> Block:
    return calls("Gate", {"path": talk.gate(name), "safe": True})


def gate(talk: Talk, name: str) -> Block:
    return calls("Gate", {"path": talk.gate(name)})


def test_a_read_behind_an_edit_sees_what_was_edited(stage: Stage) -> None:
    talk = stage.talk(mode="acceptEdits")
    a, b = talk.file("a.txt", "alpha\n"), talk.file("b.txt", "beta\n")
    edit = {"file_path": b, "old_string": "beta", "new_string": "gamma"}
    read = [calls("Read", {"file_path": path}) for path in (a, b)]
    stage.api.script(talk.name, message(*read), message(read[0], calls("Edit", edit), read[1]), DONE)
    talk.turn()
    texts = talk.result_texts()
    assert "gamma" in texts[-1]
    order = talk.call_events()[-9:]
    assert order.index(("started", 1)) > order.index(("completed", 0))
    assert order.index(("started", 2)) > order.index(("completed", 1))
    talk.is_usable()


def test_an_unsafe_call_that_waits_holds_back_the_safe_ones_behind_it(stage: Stage) -> None:
    talk = stage.talk()
    stage.api.script(talk.name, message(safe_gate(talk, "a"), gate(talk, "b"), safe_gate(talk, "c")), DONE)
    turn_id = talk.start()
    talk.at_gate("a")
    talk.wait("tool.queued", lambda data: data["call"]["call_id"].endswith("#2"))
    talk.open_gate("c")
    talk.open_gate("b")
    talk.open_gate("a")
    talk.ended(turn_id)
    assert [event for event in talk.call_events() if event[0] != "queued"] == [
        ("started", 0),
        ("completed", 0),
        ("started", 1),
        ("completed", 1),
        ("started", 2),
        ("completed", 2),
    ]
    assert talk.result_texts() == ["passed a", "passed b", "passed c"]
    talk.is_usable()


def test_safe_calls_run_beside_each_other_and_are_delivered_in_order(stage: Stage) -> None:
    talk = stage.talk()
    stage.api.script(talk.name, message(*(safe_gate(talk, name) for name in "abc")), DONE)
    turn_id = talk.start()
    for name in "abc":
        talk.at_gate(name)
    for at, name in ((2, "c"), (0, "a"), (1, "b")):
        talk.open_gate(name)
        assert talk.wait("tool.completed")["data"]["call"]["call_id"].endswith(f"#{at}")
    talk.ended(turn_id)
    assert [at for kind, at in talk.call_events() if kind == "completed"] == [2, 0, 1]
    assert talk.result_texts() == ["passed a", "passed b", "passed c"]
    talk.is_usable()


def test_a_call_that_cannot_be_read_waits_for_its_turn_like_an_unsafe_one(stage: Stage) -> None:
    talk = stage.talk()
    unreadable = calls_raw("Gate", '{"safe": true')
    stage.api.script(talk.name, message(safe_gate(talk, "a"), unreadable, safe_gate(talk, "c")), DONE)
    turn_id = talk.start()
    talk.at_gate("a")
    talk.wait("tool.queued", lambda data: data["call"]["call_id"].endswith("#2"))
    talk.open_gate("c")
    talk.open_gate("a")
    talk.ended(turn_id)
    assert [event for event in talk.call_events() if event[0] != "queued"] == [
        ("started", 0),
        ("completed", 0),
        ("completed", 1),
        ("started", 2),
        ("completed", 2),
    ]
    talk.is_usable()


def test_what_calls_beside_each_other_change_counts_in_the_order_of_the_calls(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    folders = {name: talk.folder / f"folder-{name}" for name in "ab"}
    for folder in folders.values():
        folder.mkdir()
    moves = [
        calls("Gate", {"path": talk.gate(name), "safe": True, "folder": str(folder)})
        for name, folder in folders.items()
    ]
    stage.api.script(talk.name, message(*moves), message(bash("pwd")), DONE)
    turn_id = talk.start()
    for name in "ab":
        talk.at_gate(name)
    for name in "ba":
        talk.open_gate(name)
        talk.wait("tool.completed")
    talk.ended(turn_id)
    assert talk.result_texts()[-1].strip() == str(folders["b"])


def test_commands_that_run_are_stopped_when_one_beside_them_fails(stage: Stage) -> None:
    talk = stage.talk()
    shells = [
        calls("ShellGate", {"path": talk.gate(name), "safe": True, "fails": name == "b"}) for name in ("never", "b")
    ]
    stage.api.script(talk.name, message(*shells, safe_gate(talk, "c")), DONE)
    turn_id = talk.start()
    for name in ("never", "b", "c"):
        talk.at_gate(name)
    talk.open_gate("b")
    stopped = talk.wait("tool.completed", lambda data: data["call"]["call_id"].endswith("#0"))["data"]["call"]
    assert "Cancelled: parallel tool call" in stopped["content"][0]["text"]
    talk.open_gate("c")
    assert talk.ended(turn_id)["reason"] == "completed"
    assert talk.result_texts()[2] == "passed c"
    talk.is_usable()


def test_the_limit_of_the_configuration_holds(impatient_stage: Stage) -> None:
    talk = impatient_stage.talk()
    impatient_stage.api.script(talk.name, message(*(safe_gate(talk, name) for name in "abcde")), DONE)
    turn_id = talk.start()
    for name in "abcde":
        talk.at_gate(name)
        talk.open_gate(name)
    talk.ended(turn_id)
    running, most = 0, 0
    for kind, _ in talk.call_events():
        running += {"queued": 0, "started": 1, "completed": -1}[kind]
        most = max(most, running)
    assert most == 2
    talk.is_usable()


def test_at_most_ten_calls_are_under_way_at_once(stage: Stage) -> None:
    talk = stage.talk(message(*(calls("TestingPermission", {}) for _ in range(13))), DONE)
    turn_id = talk.start()
    asks = [talk.ask() for _ in range(10)]
    talk.wait("message.completed", lambda data: data["message"]["role"] == "assistant")
    assert len(stage.daemon.call("ask/list", session_id=talk.id)["asks"]) == 10
    assert sorted(int(ask["call"]["call_id"].rpartition("#")[2]) for ask in asks) == list(range(10))
    for _ in range(3):
        talk.answer(asks.pop(), "allow")
        asks.append(talk.ask())
    for ask in asks:
        talk.answer(ask, "allow")
    assert talk.ended(turn_id)["tool_calls"] == 13
    kinds = talk.types("ask.opened", "ask.resolved")
    assert kinds[:10] == ["ask.opened"] * 10
    assert kinds[10] == "ask.resolved"
    assert talk.result_texts() == ["The test ran."] * 13
    talk.is_usable()


def test_a_call_whose_ask_is_answered_runs_while_another_one_waits(stage: Stage) -> None:
    talk = stage.talk(message(calls("TestingPermission", {}), calls("TestingPermission", {})), DONE)
    turn_id = talk.start()
    first, second = talk.ask(), talk.ask()
    talk.answer(second, "allow")
    done = talk.wait("tool.completed")["data"]["call"]
    assert done["call_id"] == second["call"]["call_id"]
    state = talk.state()
    assert (state["status"], [ask["id"] for ask in state["asks"]]) == ("waiting", [first["id"]])
    talk.answer(first, "allow")
    assert talk.ended(turn_id)["reason"] == "completed"
    assert talk.types("turn.updated") == ["turn.updated", "turn.updated"]
    talk.is_usable()


def test_a_failed_command_cancels_the_commands_beside_it_and_nobody_else(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    path = talk.file("a.txt", "alpha\n")
    stage.api.script(
        talk.name,
        message(bash("exit 3"), calls("Read", {"file_path": path}), bash("touch never"), gate(talk, "g")),
        DONE,
    )
    talk.open_gate("g")
    turn = talk.turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    texts = talk.result_texts()
    assert "exit code 3" in texts[0]
    assert "alpha" in texts[1]
    assert "Cancelled: parallel tool call" in texts[2]
    assert texts[3] == "passed g"
    assert [result.get("is_error", False) for result in talk.results()] == [True, False, True, False]
    assert not (talk.folder / "never").exists()
    talk.is_usable()


def test_a_command_that_is_written_after_another_failed_does_not_start(stage: Stage) -> None:
    stop = Gate()
    talk = stage.talk(rules={"allow": ["Bash"]})
    stage.api.script(talk.name, message(bash("exit 3"), hold(stop), bash("touch never")), DONE)
    turn_id = talk.start()
    talk.wait("tool.completed")
    stop.open()
    talk.ended(turn_id)
    assert "Cancelled: parallel tool call" in talk.result_texts()[1]
    assert not (talk.folder / "never").exists()
    talk.is_usable()


def test_a_command_that_is_refused_cancels_its_siblings_too(stage: Stage) -> None:
    talk = stage.talk(
        message(bash("forbidden"), bash("touch never")), DONE, rules={"allow": ["Bash"], "deny": ["Bash(forbidden)"]}
    )
    turn = talk.turn()
    assert turn["reason"] == "completed"
    assert [denial["tool"] for denial in turn["denials"]] == ["Bash"]
    assert "Cancelled: parallel tool call" in talk.result_texts()[1]
    talk.is_usable()


def test_an_invalid_command_cancels_its_siblings_too(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"cmd": "x"}), bash("touch never")), DONE, rules={"allow": ["Bash"]})
    talk.turn()
    assert "Cancelled: parallel tool call" in talk.result_texts()[1]
    assert not (talk.folder / "never").exists()
    talk.is_usable()


def test_a_failed_read_cancels_nobody(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    missing = calls("Read", {"file_path": talk.gate("missing.txt")})
    failing = calls("Gate", {"path": talk.file("go"), "fails": True})
    stage.api.script(talk.name, message(missing, failing, bash("echo fine")), DONE)
    talk.turn()
    assert [result.get("is_error", False) for result in talk.results()] == [True, True, False]
    assert talk.result_texts()[2] == "fine"
    talk.is_usable()


def test_the_folder_of_the_shell_moves_with_cd(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    (talk.folder / "inner").mkdir()
    stage.api.script(talk.name, message(bash("cd inner"), bash("pwd")), message(bash("pwd")), DONE)
    talk.turn()
    assert talk.result_texts()[1:] == [str(talk.folder / "inner")] * 2


def test_one_call_can_be_cancelled_while_the_turn_goes_on(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    stage.api.script(talk.name, message(bash("echo $$ > pid; exec sleep 1000"), gate(talk, "g")), DONE)
    turn_id = talk.start()
    pid = int(talk.written("pid"))
    call = talk.wait("tool.started")["data"]["call"]
    stage.daemon.call("tool/cancel", call_id=call["call_id"])
    talk.open_gate("g")
    assert talk.ended(turn_id)["reason"] == "completed"
    assert is_gone(pid)
    assert "Stopped by the person" in talk.result_texts()[0]
    assert talk.result_texts()[1] == "passed g"
    error = talk.refused("tool/cancel", call_id=call["call_id"])
    assert (error["data"]["code"], "#" in error["data"]["call_id"]) == ("no_turn_running", True)
    talk.is_usable()


def test_a_waiting_command_that_is_cancelled_cancels_the_commands_beside_it(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash"]})
    blocks = [gate(talk, "g"), bash("touch one"), bash("touch two"), gate(talk, "g")]
    stage.api.script(talk.name, message(*blocks), DONE)
    turn_id = talk.start()
    talk.at_gate("g")
    waiting = talk.wait("tool.queued", lambda data: data["call"]["call_id"].endswith("#1"))["data"]["call"]
    talk.wait("tool.queued", lambda data: data["call"]["call_id"].endswith("#3"))
    stage.daemon.call("tool/cancel", call_id=waiting["call_id"])
    talk.open_gate("g")
    assert talk.ended(turn_id)["reason"] == "completed"
    first, one, two, last = talk.result_texts()
    assert (first, last) == ("passed g", "passed g")
    assert "Stopped by the person" in one
    assert "Cancelled: parallel tool call" in two
    assert not (talk.folder / "two").exists()
    talk.is_usable()


def test_the_events_of_a_call_carry_its_whole_state(stage: Stage) -> None:
    talk = stage.talk(message(bash("echo hello")), DONE, rules={"allow": ["Bash(echo hello)"]})
    talk.turn()
    queued, started, done = (talk.all(f"tool.{kind}")[0]["call"] for kind in ("queued", "started", "completed"))
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


def test_many_sessions_run_at_once(stage: Stage) -> None:
    talks = [stage.talk(rules={"allow": ["Bash"]}) for _ in range(12)]
    for talk in talks:
        stage.api.script(talk.name, message(bash("echo one"), gate(talk, "g")), message(bash("echo two")), DONE)
    turns = [talk.start() for talk in talks]
    for talk in talks:
        talk.at_gate("g")
    for talk in talks:
        talk.open_gate("g")
    assert {talk.ended(turn)["reason"] for talk, turn in zip(talks, turns, strict=True)} == {"completed"}
    assert all(talk.result_texts() == ["one", "passed g", "two"] for talk in talks)
