"""`model/list`, and what is said to who asks for a model that there is not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.server.models import model_list
from ostler.server.models.anthropic import provider as anthropic_provider
from ostler.server.models.model_list import OfferedModel, list_known_models, parse_offered
from ostler.server.models.pricing import find_window, is_priced
from ostler.server.models.provider import ModelFailure
from tests.server.models.provider_requests import open_provider
from tests.support.daemon import Daemon
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.failures import fails, hangs, html, wrong_key
from tests.support.messages_api.server import ScriptedApi


@pytest.fixture
def model_daemon(home: Path, api: ScriptedApi) -> Iterator[Daemon]:
    with Daemon(home, environment={**api.environment, "OSTLER_MODEL": "claude-sonnet-5"}) as daemon:
        yield daemon


def list_models(daemon: Daemon, **params: Any) -> dict[str, dict[str, Any]]:
    return {model["id"]: model for model in daemon.call("model/list", **params)["models"]}


def test_models_are_those_of_the_provider_with_what_both_know_of_them(model_daemon: Daemon, api: ScriptedApi) -> None:
    api.models = ("claude-sonnet-5", "somebody-s-own")
    page = model_daemon.call("model/list")
    assert (page["source"], page["note"], page["next"]) == ("provider", None, None)
    known, unknown, rehearsal = page["models"]
    price = {"input_usd": "2", "output_usd": "10", "cache_read_usd": "0.2", "cache_write_usd": "2.5"}
    assert known == {
        "id": "claude-sonnet-5",
        "display_name": "Claude Sonnet 5",
        "provider": "anthropic",
        "context_window": 300_000,
        "max_output": 30_000,
        "price": price,
        "default": True,
    }
    assert (unknown["id"], unknown["price"], unknown["default"]) == ("somebody-s-own", None, False)
    assert (rehearsal["id"], rehearsal["provider"]) == ("rehearsal", "rehearsal")
    [headers] = api.model_requests
    assert "key-for-tests" in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer "))


def test_the_provider_is_asked_once_for_many_who_want_to_know(model_daemon: Daemon, api: ScriptedApi) -> None:
    for limit in (1, 10, 500):
        model_daemon.call("model/list", limit=limit)
    assert len(api.model_requests) == 1


def test_the_default_is_the_sessions_own_model_also_where_nobody_lists_it(model_daemon: Daemon) -> None:
    session = model_daemon.call("session/create", cwd=str(model_daemon.home.parent), model="claude-of-mine")
    found = list_models(model_daemon, session_id=session["id"])
    assert [name for name, model in found.items() if model["default"]] == ["claude-of-mine"]
    assert model_daemon.expect_error("model/list", session_id="s_none")["data"]["code"] == "session_not_found"


def test_pages_of_models_follow_each_other(model_daemon: Daemon) -> None:
    whole = list(list_models(model_daemon))
    names: list[str] = []
    page: dict[str, Any] = {"next": None}
    while not names or page["next"]:
        page = model_daemon.call("model/list", limit=1, page=page["next"])
        names += [model["id"] for model in page["models"]]
    assert names == whole


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (wrong_key(), "The provider does not let us in: invalid x-api-key. The key is that of ANTHROPIC_API_KEY"),
        (fails(404, "there is no such page"), "The provider refuses the request"),
        (html(), "text/html, not an event stream"),
        (Reply(headers={"content-type": "application/json"}, body=b'{"data": 5}'), "it has no list `data`"),
        (Reply(headers={"content-type": "application/json"}, body=b"[" * 5000), "it is not JSON"),
        (Reply(headers={"content-type": "application/json"}, body=b" " * 2_000_000), "a document without an end"),
    ],
    ids=["401", "404", "page", "no list", "nested", "endless"],
)
def test_where_the_provider_does_not_say_it_is_the_table_and_why(
    model_daemon: Daemon, api: ScriptedApi, reply: Reply, words: str
) -> None:
    api.models = reply
    page = model_daemon.call("model/list")
    assert page["source"] == "table"
    assert words in page["note"]
    assert "claude-opus-5-5" in {model["id"] for model in page["models"]}


def test_without_a_key_nobody_is_asked(daemon: Daemon) -> None:
    page = daemon.call("model/list")
    assert page["source"] == "table"
    assert "`ostler auth login`" in page["note"]
    assert [model["id"] for model in page["models"] if model["default"]] == ["rehearsal"]


@pytest.mark.anyio
async def test_a_provider_that_says_nothing_is_given_up(api: ScriptedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anthropic_provider, "_LIST_SECONDS", 0.1)
    api.models = hangs()
    async with open_provider(api.url) as provider:
        with pytest.raises(ModelFailure, match=r"said nothing for 0\.1 s"):
            await provider.list_models()


def test_who_asks_for_an_unknown_model_is_told_the_closest(model_daemon: Daemon, api: ScriptedApi) -> None:
    api.may_refuse = api.only_models = True
    session = model_daemon.call("session/create", cwd=str(model_daemon.home.parent), model="claude-sonet-5")
    error = model_daemon.call("run", session_id=session["id"], input="hello")["turn"]["error"]
    assert (error["status"], error["kind"]) == (404, "unknown_model")
    assert error["message"] == (
        "The provider has no such model: model: claude-sonet-5. Did you mean 'claude-sonnet-5'? "
        "Known are claude-sonnet-5, claude-opus-5-5; `ostler models` lists them."
    )


def test_what_a_provider_lists_is_taken_as_far_as_it_makes_sense() -> None:
    body = b"""{"data": [5, {}, {"id": ""}, {"id": "a\\nb"}, {"id": "old", "lifecycle": "retired"}, {"id": "x"},
        {"id": "x", "display_name": "X", "max_input_tokens": true, "max_tokens": -1}, {"id": "y", "max_tokens": 9}]}"""
    assert parse_offered(body) == [OfferedModel("x", "X"), OfferedModel("y", "y", None, 9)]
    rows = ",".join(f'{{"id": "m{number}"}}' for number in range(5000))
    assert len(parse_offered(f'{{"data": [{rows}]}}'.encode())) == model_list._MAX_MODELS


def test_the_table_has_window_and_price_of_each_model_that_it_names() -> None:
    assert [model.id for model in list_known_models() if not (find_window(model.id) and is_priced(model.id, {}))] == []
