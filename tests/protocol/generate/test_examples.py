"""The examples of the generated documents are true: each has the params of its method, and most of them are run."""

import json
import re
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest

from ostler.protocol.generate.examples import load_example_results, load_examples
from ostler.protocol.generate.openrpc import build_openrpc
from ostler.protocol.generate.schema import build_wire_definitions
from ostler.protocol.generate.typescript import render_typescript
from ostler.protocol.methods import METHODS
from tests.support.daemon import Daemon

_FOLDER: Final = "/home/a/proj"


def test_there_is_an_example_for_every_method_and_for_nothing_else() -> None:
    assert load_examples().keys() == METHODS.keys()


@pytest.mark.parametrize("name", METHODS)
def test_an_example_has_the_params_of_its_method(name: str) -> None:
    example = load_examples()[name]
    METHODS[name].params.model_validate_json(json.dumps(example))
    (method,) = (each for each in build_openrpc()["methods"] if each["name"] == name)
    described = {param["name"]: param for param in method["params"]}
    assert example.keys() <= described.keys()
    assert {each for each, param in described.items() if param["required"]} <= example.keys()


def test_the_result_of_an_example_is_one_of_its_method_in_the_document() -> None:
    document = build_openrpc()
    # Whoever adds a method may have no daemon yet that answers.
    assert set(METHODS) >= load_example_results().keys() > {"turn/start", "ask/resolve", "session/messages"}
    shown = {each["name"]: each for each in document["methods"] if "result" in each["examples"][0]}
    assert shown.keys() == load_example_results().keys()
    for name, method in shown.items():
        result = method["examples"][0]["result"]["value"]
        schema = {**method["result"]["schema"], "components": document["components"]}
        problems = [str(error) for error in jsonschema_rs.validator_for(schema).iter_errors(result)]
        assert problems == [], name
        assert METHODS[name].result.model_validate_json(json.dumps(result)), name


def test_the_choice_of_an_answer_is_required_in_every_document() -> None:
    definitions = build_wire_definitions("")
    kinds = [option["$ref"] for option in definitions["AskResolve"]["properties"]["answer"]["anyOf"]]
    assert len(kinds) == 12
    declarations = render_typescript()
    for kind in kinds:
        assert definitions[kind]["required"][0] == "choice", kind
        assert "default" not in definitions[kind]["properties"]["choice"]
        assert re.search(rf"interface {kind} \{{[^}}]*^  choice: ", declarations, re.MULTILINE | re.DOTALL), kind


class ExampleRunner:
    """Calls with the params of the examples, with real ids and a real folder in the place of theirs."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.ran: list[str] = []
        self._daemon = daemon
        self._real = {_FOLDER: str(folder)}

    def run(self, name: str) -> Any:
        text = json.dumps(load_examples()[name])
        for example, real in self._real.items():
            text = text.replace(f'"{example}"', json.dumps(real))
        self.ran.append(name)
        return self._daemon.call(name, **json.loads(text))

    def learn(self, field: str, method: str, real: str) -> None:
        """The real value of what the example of a method calls so."""
        self._real[load_examples()[method][field]] = real


def test_the_examples_can_be_run(home: Path, tmp_path: Path) -> None:
    (folder := tmp_path / "proj").mkdir()
    (folder / "README.md").write_text("hello\n")
    with Daemon(home, environment={"OSTLER_REHEARSAL_PACE_MS": "0"}) as daemon, daemon.follow("?after=0") as stream:
        examples = ExampleRunner(daemon, folder)
        for name in ("initialize", "rpc.discover", "server/info", "server/stats", "client/list"):
            examples.run(name)
        examples.learn("session_id", "session/get", examples.run("session/create")["id"])
        examples.learn("turn_id", "turn/get", examples.run("turn/start")["id"])
        examples.learn("ask_id", "ask/get", stream.wait_for("ask.opened")["data"]["ask"]["id"])
        assert examples.run("ask/get") in examples.run("ask/list")["asks"]
        assert examples.run("ask/resolve")["status"] == "resolved"
        assert examples.run("turn/wait")["reason"] == "completed"
        assert examples.run("turn/get")["id"] == examples.run("turn/list")["turns"][0]["id"]
        messages = examples.run("session/messages")["messages"]
        examples.learn("message_id", "session/fork", messages[-1]["id"])
        for name in ("session/get", "session/update", "session/fork", "session/export", "session/diff", "tool/list"):
            examples.run(name)
        for name in ("session/context", "session/usage", "session/prompt", "memory/add", "memory/list"):
            examples.run(name)
        for name in ("agent/list", "skill/list", "file/search", "file/read"):
            examples.run(name)
        for name in (
            "task/list",
            "hook/list",
            "rule/add",
            "rule/list",
            "rule/remove",
            "rule/explain",
        ):
            examples.run(name)
        for name in ("todo/create", "todo/list", "todo/update", "todo/delete"):
            examples.run(name)
        for name in ("trust/grant", "trust/list", "trust/revoke", "config/set", "config/get", "session/list"):
            examples.run(name)
        assert examples.run("run")["turn"]["reason"] == "completed"
        for name in ("session/archive", "session/delete", "server/shutdown"):
            examples.run(name)
        assert daemon.wait() == 0
    assert len(examples.ran) == len(set(examples.ran)) > len(METHODS) * 0.7
