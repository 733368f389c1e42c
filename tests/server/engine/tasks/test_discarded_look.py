"""What a look showed in a message that was taken back, the next look shows again."""

from pathlib import Path

from tests.support.background_commands import printed, talk_behind, until
from tests.support.driver import Stage
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, cut, hold, message
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE


def test_output_that_a_broken_stream_took_along_is_given_again(stage: Stage) -> None:
    talk, (task,) = talk_behind(stage, f"echo one; {until(Path('go'))}")
    printed(stage.daemon, task, "one")
    look, gate = calls("TaskOutput", {"task_id": task["id"], "block": False}), Gate()
    stage.api.script(talk.name, DONE, DONE, attempts(message(look, hold(gate), cut()), message(look)), otherwise=DONE)
    turn_id = talk.start()
    talk.wait("tool.completed", lambda data: data["call"]["tool"] == "TaskOutput")
    gate.open()
    talk.ended(turn_id)
    assert talk.all("tool.completed")[-1]["call"]["output"]["task"]["output"] == "one\n"
