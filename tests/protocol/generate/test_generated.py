"""The OpenRPC document, JSON Schema, TypeScript and reference page are up to date, complete and correct."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ostler.protocol.config import Config
from ostler.protocol.errors import OSTLER_ERRORS, RPC_ERRORS
from ostler.protocol.events import EVENT_TYPES
from ostler.protocol.generate import openrpc, reference, schema, typescript
from ostler.protocol.generate.docstrings import read_field_docstrings
from ostler.protocol.generate.schema import list_settings
from ostler.protocol.limits import PROTOCOL_VERSION
from ostler.protocol.methods import METHODS
from ostler.protocol.shapes import Ask
from scripts import generate
from scripts.generate import DOCS, ROOT, check_files, find_stale_files, write_files

# Nobody changes what these return: once for all tests here.
build_openrpc = cache(openrpc.build_openrpc)
build_json_schema = cache(schema.build_json_schema)
render_typescript = cache(typescript.render_typescript)
render_reference = cache(reference.render_reference)
generate_files = cache(generate.generate_files)

DOCUMENTS = {"openrpc": build_openrpc, "jsonschema": build_json_schema}


def find_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from find_references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from find_references(inner)


def resolve(document: dict[str, Any], reference: str) -> Any:
    assert reference.startswith("#/"), reference
    found: Any = document
    for part in reference[2:].split("/"):
        assert part in found, f"{reference} leads nowhere"
        found = found[part]
    return found


# Freshness.


@pytest.fixture
def generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of how files are written and compared: what they should hold stays the same meanwhile."""
    monkeypatch.setattr(generate, "generate_files", generate_files)


@pytest.mark.usefixtures("generated_once")
def test_the_generated_files_are_fresh() -> None:
    assert find_stale_files(ROOT) == [], "run `make generate`"


@pytest.mark.usefixtures("generated_once")
def test_check_is_silent_when_everything_is_fresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path)
    assert check_files(tmp_path) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("generated_once")
def test_check_names_what_was_changed_and_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path)
    with (tmp_path / "docs/reference.md").open("a") as page:
        page.write("A line by hand.\n")
    (tmp_path / "docs/schema.json").unlink()
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}
    assert check_files(tmp_path) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{tmp_path / 'docs/reference.md'} is stale: run `make generate`",
        f"{tmp_path / 'docs/schema.json'} is stale: run `make generate`",
    ]
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before


def test_generating_again_in_another_process_gives_the_same_bytes() -> None:
    # Another seed for hashes than that of this process: an order that comes from a set would differ.
    script = (
        "import gc, sys; gc.disable(); from scripts.generate import generate_files; "
        "sys.stdout.write(repr(generate_files()))"
    )
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=DOCS.parent,
        env={"PYTHONHASHSEED": seed},
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == repr(generate_files()).encode()


# OpenRPC and JSON Schema.


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_reference_resolves(name: str) -> None:
    document = DOCUMENTS[name]()
    found = list(find_references(document))
    assert found
    for each in found:
        resolve(document, each)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_schema_is_named_after_a_module_or_a_direction(name: str) -> None:
    # Such a name means that two models share one, or that one model is both sent and received.
    document = DOCUMENTS[name]()
    schemas = document.get("$defs") or document["components"]["schemas"]
    assert [schema for schema in schemas if not re.fullmatch(r"[A-Z][A-Za-z]+", schema)] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_plain_json(name: str) -> None:
    document = DOCUMENTS[name]()
    assert json.loads(json.dumps(document)) == document


def test_openrpc_has_every_method_with_its_params_and_result() -> None:
    document = build_openrpc()
    assert document["openrpc"] == "1.3.2"
    assert document["info"]["version"] == PROTOCOL_VERSION
    described = {method["name"]: method for method in document["methods"]}
    assert list(described) == list(METHODS)
    for name, method in METHODS.items():
        assert {param["name"] for param in described[name]["params"]} == set(method.params.model_fields)
        assert resolve(document, described[name]["result"]["schema"]["$ref"])["title"] == method.result.__name__
        assert (described[name]["x-locks"], described[name]["x-waits"]) == (method.locks, method.waits)


def test_openrpc_params_are_by_name_and_required_ones_come_first() -> None:
    for method in build_openrpc()["methods"]:
        assert method["paramStructure"] == "by-name"
        required = [param["required"] for param in method["params"]]
        assert required == sorted(required, reverse=True), method["name"]


def test_openrpc_has_every_event_and_whether_it_is_stored() -> None:
    document = build_openrpc()
    assert [event["type"] for event in document["x-events"]] == list(EVENT_TYPES)
    for event in document["x-events"]:
        kind = EVENT_TYPES[event["type"]]
        assert event["stored"] is kind.stored
        assert resolve(document, event["data"]["$ref"])["title"] == kind.data.__name__


def test_openrpc_has_every_error() -> None:
    errors = build_openrpc()["components"]["errors"]
    for error in RPC_ERRORS:
        assert errors[error.__name__]["code"] == error.code
    for word, ours in OSTLER_ERRORS.items():
        assert (errors[word]["code"], errors[word]["data"]["code"]) == (ours.code, word)


def test_the_errors_of_a_method_differ_in_their_codes() -> None:
    # As OpenRPC wants it.
    document = build_openrpc()
    for method in document["methods"]:
        codes = [resolve(document, error["$ref"])["code"] for error in method["errors"]]
        assert len(codes) == len(set(codes)), method["name"]


def test_what_is_sent_has_all_its_fields_and_what_is_received_its_defaults() -> None:
    schemas = build_json_schema()["$defs"]
    assert set(schemas["Session"]["required"]) == set(schemas["Session"]["properties"])
    assert "default" not in schemas["Session"]["properties"]["title"]
    assert schemas["SessionCreate"]["required"] == ["cwd"]
    assert schemas["SessionCreate"]["properties"]["mode"]["default"] == "default"


def test_a_field_that_can_be_left_as_it_is_has_no_default() -> None:
    # A client that filled one in would change what nobody asked to change.
    update = build_json_schema()["$defs"]["SessionUpdate"]
    assert update["required"] == ["session_id"]
    assert [name for name, field in update["properties"].items() if "default" in field] == []


def test_only_an_event_that_is_not_stored_says_what_it_comes_after() -> None:
    event = build_json_schema()["$defs"]["Event"]
    assert set(event["properties"]) - set(event["required"]) == {"after"}


def test_a_known_block_may_also_look_like_an_unknown_one() -> None:
    content = build_json_schema()["$defs"]["Message"]["properties"]["content"]["items"]
    assert {"$ref": "#/$defs/OtherBlock"} in content["anyOf"]
    assert "oneOf" not in content


def test_the_json_schema_has_the_configuration() -> None:
    schemas = build_json_schema()["$defs"]
    assert set(schemas["Config"]["properties"]) == set(Config.model_fields)
    assert schemas["ConfigListen"]["properties"]["port"]["maximum"] == 65535
    assert "max_page" in schemas["Limits"]["properties"]
    assert "readers" in schemas["ConfigLimits"]["properties"]


def test_docstrings_of_fields_are_found_under_their_names_on_the_wire() -> None:
    found = read_field_docstrings(Ask)
    assert found["schema"] == "Elicitation: the JSON Schema of what it wants."
    assert "schema_" not in found


def test_settings_have_their_environment_variables() -> None:
    names = {setting.key: setting.environment for setting in list_settings()}
    assert names["listen.port"] == "OSTLER_LISTEN__PORT"
    assert names["model.name"] == "OSTLER_MODEL__NAME"


# TypeScript and the page.


def test_typescript_declares_every_method_and_event() -> None:
    text = render_typescript()
    for name, method in METHODS.items():
        line = f'"{name}": {{ params: {method.params.__name__}; result: {method.result.__name__} }};'
        assert line in text
    for name, event in EVENT_TYPES.items():
        assert f'"{name}": {event.data.__name__};' in text


def test_typescript_declares_everything_that_it_speaks_of() -> None:
    text = render_typescript()
    declared = re.findall(r"^export (?:interface|type) (\w+)", text, re.MULTILINE)
    assert len(declared) == len(set(declared))
    without_words = re.sub(r"/\*\*.*?\*/|//[^\n]*|\"[^\"]*\"", "", text, flags=re.DOTALL)
    spoken_of = set(re.findall(r"\b[A-Z]\w+", without_words))
    assert spoken_of - set(declared) == {"Array", "Record", "Omit"}


def test_typescript_knows_every_error_word() -> None:
    line = re.search(r"^export type ErrorWord = (.*);$", render_typescript(), re.MULTILINE)
    assert line is not None
    assert line[1].split(" | ") == [f'"{word}"' for word in sorted(OSTLER_ERRORS)]


def test_typescript_tells_what_may_be_left_out_from_what_may_be_null() -> None:
    text = render_typescript()
    assert "  title?: string | null;\n" in text.partition("export interface SessionCreate {")[2].partition("}")[0]
    assert "  title: string | null;\n" in text.partition("export interface Session {")[2].partition("}")[0]


def test_every_link_on_the_page_leads_somewhere() -> None:
    page = render_reference()
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    places = {heading.lower().replace(" ", "-") for heading in headings}
    anchors = re.findall(r'<a id="([^"]+)">', page)
    assert len(anchors) == len(set(anchors))
    links = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert links - places - set(anchors) == set()


def test_every_table_on_the_page_has_as_many_cells_in_each_line() -> None:
    for table in re.findall(r"(?:^\|.*\n)+", render_reference(), re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table.splitlines()[0]
