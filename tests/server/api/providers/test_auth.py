"""`auth/set`, `auth/status`, `auth/remove`: keys come in over the Unix socket, and never go out again."""

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from ostler.server.models.anthropic.provider import AnthropicSettings
from tests.support.daemon import Daemon
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.server import ScriptedApi

KEY: Final = "sk-ours-0123456789"


def call_on_socket(daemon: Daemon, method: str, **params: Any) -> Any:
    """The whole answer of a call over the Unix socket, without a token."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"Content-Type": "application/json"}
    return daemon.send_http("POST", "/rpc", body, headers, unix=True, authorised=False).json


def find_sent_key(headers: Mapping[str, str]) -> str:
    """The library may send it in the one header or in the other."""
    return headers.get("x-api-key") or headers["authorization"].removeprefix("Bearer ")


def keep_key(daemon: Daemon, key: str = KEY, **params: Any) -> dict[str, Any]:
    state = call_on_socket(daemon, "auth/set", provider="anthropic", api_key=key, **params)["result"]
    [kept] = state["keys"]
    return dict(kept)


def get_state(daemon: Daemon) -> dict[str, Any]:
    [state] = call_on_socket(daemon, "auth/status", provider="anthropic")["result"]["keys"]
    return dict(state)


def create_session(daemon: Daemon) -> dict[str, Any]:
    return dict(daemon.call("session/create", cwd=str(daemon.home.parent)))


def run_turn(daemon: Daemon, session_id: str) -> dict[str, Any]:
    return dict(daemon.call("run", session_id=session_id, input="hello")["turn"])


def write_keys(daemon: Daemon, text: str, mode: int = 0o600) -> Path:
    path = daemon.home / "credentials.json"
    path.touch(mode=0o600)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def strict_api(api: ScriptedApi) -> ScriptedApi:
    """A provider that lets in only our key."""
    api.keys = frozenset({KEY})
    api.always(message(says("Hello.")), otherwise=message(says("Hello.")))
    return api


@pytest.fixture
def keyless_daemon(home: Path, strict_api: ScriptedApi) -> Iterator[Daemon]:
    """A daemon that knows the provider's address, and has no key."""
    with Daemon(home, environment={"ANTHROPIC_BASE_URL": strict_api.url}) as daemon:
        yield daemon


def test_a_kept_key_is_used_by_the_next_turn_without_a_restart(keyless_daemon: Daemon, strict_api: ScriptedApi) -> None:
    session_id = create_session(keyless_daemon)["id"]
    without = run_turn(keyless_daemon, session_id)
    assert without["error"]["status"] == 401
    assert "No key was sent: `ostler auth login` keeps one" in without["error"]["message"]
    keep_key(keyless_daemon, "sk-of-somebody-else")
    wrong = run_turn(keyless_daemon, session_id)
    assert wrong["error"]["kind"] == "access"
    assert "The key is the one that was kept: `ostler auth login` replaces it" in wrong["error"]["message"]
    assert keep_key(keyless_daemon)["source"] == "file"
    assert run_turn(keyless_daemon, session_id)["reason"] == "completed"
    sent = [find_sent_key(request.headers) for request in strict_api.requests]
    assert sent == ["none", "sk-of-somebody-else", KEY]


def test_after_a_key_is_kept_new_sessions_have_a_real_model(daemon: Daemon) -> None:
    assert create_session(daemon)["model"] == "rehearsal"
    assert call_on_socket(daemon, "auth/set", provider="brave", api_key=KEY)["result"]["model"] == "rehearsal"
    keep_key(daemon)
    assert create_session(daemon)["model"] == daemon.call("server/info")["model"] == "claude-sonnet-5"
    answer = call_on_socket(daemon, "auth/remove", provider="anthropic")["result"]
    assert (answer["model"], answer["keys"][0]["source"]) == ("rehearsal", None)
    assert create_session(daemon)["model"] == "rehearsal"
    assert json.loads((daemon.home / "credentials.json").read_text()) == {"brave": {"api_key": KEY}}


def test_the_environment_wins_over_a_kept_key_and_status_says_so(home: Path, strict_api: ScriptedApi) -> None:
    environment = {"ANTHROPIC_BASE_URL": strict_api.url, "ANTHROPIC_API_KEY": "sk-of-the-environment"}
    with Daemon(home, environment=environment) as daemon:
        state = keep_key(daemon)
        assert (state["source"], state["variable"], state["stored"]) == ("environment", "ANTHROPIC_API_KEY", "file")
        error = run_turn(daemon, create_session(daemon)["id"])["error"]
    assert "The key is that of ANTHROPIC_API_KEY, which the daemon was started with" in error["message"]
    assert "`ostler stop`" in error["message"]
    assert find_sent_key(strict_api.requests[0].headers) == "sk-of-the-environment"


def test_a_key_comes_over_the_unix_socket_only(daemon: Daemon) -> None:
    tried: list[tuple[str, dict[str, Any]]] = [
        ("auth/set", {"provider": "anthropic", "api_key": KEY}),
        ("auth/status", {}),
        ("auth/remove", {"provider": "anthropic"}),
        ("auth/set", {"api_key": 5}),
    ]
    for method, params in tried:
        error = daemon.expect_error(method, **params)
        assert error["data"]["code"] == "socket_only"
        assert "Unix socket" in error["message"]
    assert not (daemon.home / "credentials.json").exists()


@pytest.mark.parametrize(
    "params",
    [
        {"provider": "anthropic", "api_key": f"{KEY} {KEY}"},
        {"provider": "anthropic", "api_key": f"{KEY}\n{KEY}"},
        {"provider": "anthropic", "api_key": f"{KEY}é"},
        {"provider": "anthropic", "api_key": f"{KEY}{'x' * 20_000}"},
        {"provider": "anthropic", "api_key": [KEY]},
        {"provider": "anthropic", "api_key": KEY, "store": KEY},
        {"provider": "anthropic", "api_key": KEY, "kept": KEY},
        {"provider": KEY, "api_key": KEY},
        {"provider": [KEY], "api_key": KEY},
        {"api_key": KEY},
    ],
    ids=["space", "line", "letter", "long", "list", "store", "more", "swapped", "list of providers", "no provider"],
)
def test_a_key_that_cannot_be_kept_is_refused_without_saying_it(auth_daemon: Daemon, params: dict[str, Any]) -> None:
    answer = call_on_socket(auth_daemon, "auth/set", **params)
    assert answer["error"]["code"] == -32602
    assert KEY not in json.dumps(answer) + auth_daemon.stderr


@pytest.fixture(scope="module")
def auth_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One that tells everything in its log, for what is refused."""
    environment = {"OSTLER_LOG__LEVEL": "debug"}
    with Daemon(tmp_path_factory.mktemp("auth") / "home", environment=environment) as daemon:
        yield daemon


def test_a_key_is_never_given_back_logged_or_told_in_an_error(home: Path, strict_api: ScriptedApi) -> None:
    secret = "sk-somebody-else-9876543210"
    strict_api.may_refuse = True
    environment = {"ANTHROPIC_BASE_URL": strict_api.url, "OSTLER_LOG__LEVEL": "debug"}
    with Daemon(home, environment=environment) as daemon:
        session_id = create_session(daemon)["id"]
        with daemon.follow("?after=0") as stream:
            answers = [
                call_on_socket(daemon, "auth/set", provider="anthropic", api_key=secret),
                call_on_socket(daemon, "auth/status"),
                run_turn(daemon, session_id),
                daemon.call("model/list"),
                daemon.call("config/get"),
                call_on_socket(daemon, "auth/remove", provider="anthropic"),
                call_on_socket(daemon, "auth/remove", provider="anthropic"),
            ]
            events = [stream.wait_for("turn.ended")]
        [request] = strict_api.requests
        assert find_sent_key(request.headers) == secret
        told = json.dumps([answers, events]) + daemon.stderr + daemon.send_http("GET", "/metrics").body.decode()
        daemon.stop()
        kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert "key_kept" in told
    assert secret not in told
    assert secret.encode() not in kept


def test_the_file_of_keys_is_ours_alone_and_refused_where_others_can_read_it(daemon: Daemon) -> None:
    keep_key(daemon)
    path = daemon.home / "credentials.json"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    state = get_state(daemon)
    assert (state["source"], state["stored"]) == (None, None)
    assert f"Run: chmod 600 {path}" in state["problem"]
    assert "is left as it is" in call_on_socket(daemon, "auth/set", provider="exa", api_key="x")["error"]["message"]
    # Not the rehearsal without a word: the session has the real model, and says what is wrong.
    session = create_session(daemon)
    assert session["model"] == "claude-sonnet-5"
    assert f"Run: chmod 600 {path}" in run_turn(daemon, session["id"])["error"]["message"]
    path.chmod(0o600)
    assert get_state(daemon)["source"] == "file"


def test_a_link_in_the_place_of_the_file_of_keys_is_not_followed(daemon: Daemon, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"anthropic": {"api_key": KEY}}))
    (daemon.home / "credentials.json").symlink_to(other)
    assert "is not a plain file" in get_state(daemon)["problem"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"anthropic": {"api_key": "sk-ours-0123456789"},\n}', ":2:1: it is not JSON"),
        ("", ":1:1: it is not JSON"),
        ('["sk-ours-0123456789"]', ":1:1: it is no object"),
        ('{"anthropic": "sk-ours-0123456789"}', "the entry 'anthropic' is neither"),
        ('{"anthropic": {"api_key": "sk ours"}}', "the entry 'anthropic' is neither"),
        ('{"anthropic": {"keyring": "sk-ours-0123456789"}}', "the entry 'anthropic' is neither"),
        ('{"anthropic": {"api_key": "sk-é"}}', "the entry 'anthropic' is neither"),
    ],
)
def test_a_broken_file_of_keys_is_told_with_its_place_and_never_overwritten(
    daemon: Daemon, text: str, place: str
) -> None:
    path = write_keys(daemon, text)
    state = get_state(daemon)
    assert state["source"] is None
    assert state["problem"].startswith(f"{path}:")
    assert place in state["problem"]
    for provider in ("anthropic", "exa"):
        error = call_on_socket(daemon, "auth/set", provider=provider, api_key="another")["error"]
        assert error["data"]["code"] == "conflict"
        assert place in error["message"]
        assert KEY not in json.dumps([state, error])
    assert path.read_text() == text


def test_a_key_that_is_written_by_hand_counts_at_once_and_the_rest_of_the_file_stays(daemon: Daemon) -> None:
    path = write_keys(daemon, json.dumps({"anthropic": {"api_key": KEY}, "later": {"a": 1}}))
    assert get_state(daemon)["source"] == "file"
    assert call_on_socket(daemon, "auth/set", provider="tavily", api_key="t")["result"]["keys"][0]["source"] == "file"
    expected = {"anthropic": {"api_key": KEY}, "later": {"a": 1}, "tavily": {"api_key": "t"}}
    assert json.loads(path.read_text()) == expected
    path.unlink()
    assert get_state(daemon)["source"] is None


def test_a_write_of_keys_that_fails_leaves_the_old_ones(daemon: Daemon) -> None:
    keep_key(daemon)
    # Nothing can be written over a folder in the place of the new file.
    (daemon.home / ".credentials.json.new").mkdir()
    error = call_on_socket(daemon, "auth/set", provider="anthropic", api_key="another")["error"]
    assert error["data"]["code"] == "storage_error"
    assert "credentials.json could not be written" in error["message"]
    assert json.loads((daemon.home / "credentials.json").read_text()) == {"anthropic": {"api_key": KEY}}


def test_tools_do_not_read_the_file_of_keys(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with Daemon(home, environment={"OSTLER_REHEARSAL_PACE_MS": "0", "OSTLER_MODEL": "rehearsal"}) as daemon:
        keep_key(daemon)
        session_id = daemon.call("session/create", cwd=str(project), mode="acceptEdits")["id"]
        file = home / "credentials.json"
        for words in (f"read {file}", f"find sk-ours in {home}", f"run `cat {file}`", f"run `grep -r sk-ours {home}`"):
            turn = daemon.call("run", session_id=session_id, input=words, on_ask="deny")["turn"]
            assert len(turn["denials"]) == 1, words
        told = json.dumps(daemon.call("session/messages", session_id=session_id))
    assert "in the daemon's own folder" in told
    assert KEY not in told


# The system's keyring: the real package, with a backend that keeps its keys in a file.

BACKEND: Final = """
import json, os, pathlib
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

class FileKeyring(KeyringBackend):
    priority = 1
    path = pathlib.Path(os.environ["RING_FILE"])
    def _load(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}
    def get_password(self, service, username):
        return self._load().get(f"{service}/{username}")
    def set_password(self, service, username, password):
        self.path.write_text(json.dumps({**self._load(), f"{service}/{username}": password}))
    def delete_password(self, service, username):
        found = self._load()
        if f"{service}/{username}" not in found:
            raise PasswordDeleteError(username)
        del found[f"{service}/{username}"]
        self.path.write_text(json.dumps(found))
"""


def make_keyring_environment(folder: Path, backend: str = "file_keyring.FileKeyring") -> dict[str, str]:
    modules = folder / "modules"
    modules.mkdir()
    (modules / "file_keyring.py").write_text(BACKEND)
    return {"PYTHONPATH": str(modules), "PYTHON_KEYRING_BACKEND": backend, "RING_FILE": str(folder / "ring.json")}


def test_a_key_in_the_keyring_is_used_and_is_in_no_file_of_ours(
    home: Path, tmp_path: Path, strict_api: ScriptedApi
) -> None:
    environment = {"ANTHROPIC_BASE_URL": strict_api.url, **make_keyring_environment(tmp_path)}
    ring = tmp_path / "ring.json"
    with Daemon(home, environment=environment) as daemon:
        assert keep_key(daemon, store="keyring")["source"] == "keyring"
        assert json.loads((home / "credentials.json").read_text()) == {"anthropic": {"keyring": True}}
        assert json.loads(ring.read_text()) == {f"ostler {home}/anthropic": KEY}
        session_id = create_session(daemon)["id"]
        assert run_turn(daemon, session_id)["reason"] == "completed"
        ring.write_text("{}")
        keep_key(daemon, store="keyring")
        ring.write_text("{}")  # somebody took it away, and the file says that it is there
        call_on_socket(daemon, "auth/set", provider="exa", api_key="x")
        error = run_turn(daemon, session_id)["error"]
        assert "has no key of anthropic any more. `ostler auth login anthropic --keyring`" in error["message"]
        assert keep_key(daemon, store="keyring")["source"] == "keyring"
        # Kept in the file, it is in the keyring no longer.
        assert keep_key(daemon)["source"] == "file"
        assert json.loads(ring.read_text()) == {}
    assert [find_sent_key(request.headers) for request in strict_api.requests] == [KEY]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("missing", "The package `keyring` is not installed"),
        ("none", "There is no keyring on this system"),
        ("broken", "The system's keyring has refused (RuntimeError)"),
    ],
)
def test_where_there_is_no_keyring_that_is_said_and_nothing_is_kept(
    home: Path, tmp_path: Path, how: str, words: str
) -> None:
    backend = {"none": "keyring.backends.fail.Keyring", "broken": "file_keyring.FileKeyring"}.get(how, "")
    environment = make_keyring_environment(tmp_path, backend)
    modules = tmp_path / "modules"
    if how == "missing":
        (modules / "keyring.py").write_text("raise ImportError('as where it is not installed')")
    if how == "broken":
        with (modules / "file_keyring.py").open("a") as file:
            file.write("    def set_password(self, *given):\n        raise RuntimeError(given)\n")
    with Daemon(home, environment=environment) as daemon:
        error = call_on_socket(daemon, "auth/set", provider="anthropic", api_key=KEY, store="keyring")["error"]
        assert error["message"].startswith(words)
        assert KEY not in json.dumps(error) + daemon.stderr
        assert get_state(daemon)["source"] is None


def test_a_dead_address_says_what_was_tried(home: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        environment = {
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "k",
            "OSTLER_MODEL__MAX_RETRIES": "1",
            "OSTLER_MODEL__FIRST_WAIT_SECONDS": "0.01",
        }
        with Daemon(home, environment=environment) as daemon:
            message = run_turn(daemon, create_session(daemon)["id"])["error"]["message"]
    assert message.startswith(f"The provider at {address} (ANTHROPIC_BASE_URL) cannot be reached: ")
    assert message.endswith(" It was tried 2 times.")


def test_an_address_is_told_without_what_may_be_secret_in_it() -> None:
    settings = AnthropicSettings(base_url="https://me:secret@box.example:8/api?key=secret")
    assert settings.place == "https://box.example:8/api (ANTHROPIC_BASE_URL)"
    assert AnthropicSettings().place == "https://api.anthropic.com"
