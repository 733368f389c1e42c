"""Everything that a client can meet is documented; a failure here names what is not."""

import re
from collections.abc import Mapping

import pytest

from ostler.protocol import errors
from ostler.protocol.errors import OSTLER_ERRORS, RPC_ERRORS
from ostler.protocol.events import EVENT_TYPES
from ostler.protocol.generate.schema import Schema, build_wire_definitions, list_settings
from ostler.protocol.limits import DEFAULT_PAGE
from ostler.protocol.methods import METHODS
from scripts.generate import DOCS
from tests.support.tables import try_each

SHAPES = build_wire_definitions("")
RECEIVED = {name: shape for name, shape in SHAPES.items() if shape.get("additionalProperties") is False}
"""What a client sends: params, and what stands inside them."""


def find_undocumented(documented: Mapping[str, str], page: str) -> list[str]:
    """The names without a description, or which the page does not show together with their description."""
    lines = [_normalize(line) for line in page.splitlines()]
    return [name for name, text in documented.items() if not text.strip() or not _is_shown(name, text, lines)]


def _is_shown(name: str, text: str, lines: list[str]) -> bool:
    return any(f"`{name}`" in line and _normalize(text) in line for line in lines)


def _normalize(text: str) -> str:
    return " ".join(text.replace("\\|", "|").split())


def get_descriptions(shape: Schema) -> dict[str, str]:
    return {name: field.get("description", "") for name, field in shape.get("properties", {}).items()}


def extract_section(page: str, title: str) -> str:
    """The page from one heading to the next of its kind."""
    return re.split(r"^##", page.partition(f"\n### {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "reference.md").read_text("utf-8")


def test_every_method_is_documented(page: str) -> None:
    assert find_undocumented({name: method.summary for name, method in METHODS.items()}, page) == []


def test_every_method_has_a_section_with_what_it_locks_and_gives(page: str) -> None:
    for name, method in METHODS.items():
        text = extract_section(page, name)
        assert f"Locks {'nothing' if method.locks == 'nothing' else 'the ' + method.locks}" in text, name
        assert f"Result: [{method.result.__name__}]" in text, name


@try_each("name", METHODS)
def test_every_param_is_documented(name: str, page: str) -> None:
    assert find_undocumented(get_descriptions(SHAPES[METHODS[name].params.__name__]), extract_section(page, name)) == []


@try_each("name", sorted(RECEIVED.keys() - {method.params.__name__ for method in METHODS.values()}))
def test_every_field_inside_params_is_documented(name: str, page: str) -> None:
    assert find_undocumented(get_descriptions(RECEIVED[name]), extract_section(page, name)) == []


def test_every_event_is_documented(page: str) -> None:
    assert find_undocumented({name: event.when for name, event in EVENT_TYPES.items()}, page) == []


def test_every_error_is_documented(page: str) -> None:
    meanings = {word: error.meaning for word, error in OSTLER_ERRORS.items()}
    assert find_undocumented(meanings, page) == []
    assert find_undocumented({error.__name__: error.meaning for error in RPC_ERRORS}, page) == []


def test_every_error_stands_in_the_drawing_with_its_word() -> None:
    lines = (errors.__doc__ or "").splitlines()
    drawn = {name: line for line in lines for name in re.findall(r"─ (\w+)", line)}
    assert [error.__name__ for error in RPC_ERRORS if str(error.code) not in drawn.get(error.__name__, "")] == []
    assert [word for word, error in OSTLER_ERRORS.items() if word not in drawn.get(error.__name__, "")] == []


def test_every_error_has_a_meaning_of_its_own() -> None:
    meanings = [error.meaning for error in (*RPC_ERRORS, *OSTLER_ERRORS.values())]
    assert len(meanings) == len(set(meanings))


def test_every_setting_is_documented_with_its_environment_variable(page: str) -> None:
    assert find_undocumented({setting.key: setting.meaning for setting in list_settings()}, page) == []
    assert find_undocumented({setting.environment: setting.meaning for setting in list_settings()}, page) == []


def test_every_shape_says_what_it_is() -> None:
    assert [name for name, shape in SHAPES.items() if not shape.get("description", "").strip()] == []


def test_what_nobody_documented_is_named(page: str) -> None:
    silent = {"session/create": METHODS["session/create"].summary, "session/dance": ""}
    assert find_undocumented(silent, page) == ["session/dance"]


def test_what_the_page_does_not_show_is_named(page: str) -> None:
    said = {"session/get": METHODS["session/get"].summary, "session/sing": "A session sings."}
    assert find_undocumented(said, page) == ["session/sing"]


def test_what_the_page_says_otherwise_is_named(page: str) -> None:
    assert find_undocumented({"session/create": "Create two sessions."}, page) == ["session/create"]


@try_each("name", [name for name in METHODS if name.endswith("/list")])
def test_every_list_is_given_in_pages(name: str) -> None:
    method = METHODS[name]
    limit = method.params.model_fields["limit"]
    assert (limit.default, method.params.model_fields["page"].default) == (DEFAULT_PAGE, None)
    assert "next" in method.result.model_fields
