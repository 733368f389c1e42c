"""Every kind of hook in a turn: a server that is asked, the small model, and a plug-in."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import Harness, Json
from tests.support.hooks import build_decision, list_hook_runs
from tests.support.messages_api.replies import message, says
from tests.support.model_replies import bash
from tests.support.projects import OSTLER_SETTINGS, list_decisions, make_project, run_calls

PRE = "PreToolUse"
DENY = build_decision(PRE, permissionDecision="deny", permissionDecisionReason="not on Fridays")
JUDGE = "hooks-of-the-tests"
PLUG_IN = """
from ostler.server.hooks import hook

@hook("PreToolUse", matcher="Bash")
async def fridays(payload):
    if payload["tool_input"]["command"] == "ls":
        return {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not on Fridays"}}
"""


class Server(HTTPServer):
    """Denies everything, and remembers what it was told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[Json] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Server)
        self.server.received.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        body = json.dumps(DENY).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def make_project_with_hook(harness: Harness, **hook: str) -> Path:
    return make_project(harness, {OSTLER_SETTINGS: {"hooks": {PRE: [{"hooks": [hook]}]}}})


def test_a_server_that_is_asked_denies_a_call(harness: Harness, server: Server) -> None:
    folder = make_project_with_hook(harness, type="http", url=server.url)
    driver = run_calls(harness, bash("ls"), folder=folder, trust=True, rules={"allow": ["Bash"]})
    assert list_decisions(driver) == [("deny", "hook")]
    assert "not on Fridays" in driver.fetch_result_texts()[0]
    (told,) = server.received
    assert (told["hook_event_name"], told["tool_input"], told["session_id"]) == (PRE, {"command": "ls"}, driver.id)
    assert [run["outcome"] for run in list_hook_runs(driver)] == ["denied"]


@pytest.mark.parametrize(("ok", "expected"), [(False, ("deny", "hook")), (True, ("allow", "rule"))])
def test_the_small_model_is_asked_and_its_no_denies_a_call(
    harness: Harness, ok: bool, expected: tuple[str, str]
) -> None:
    harness.api.script(JUDGE, otherwise=message(says(json.dumps({"ok": ok, "reason": "not on Fridays"}))))
    folder = make_project_with_hook(harness, type="prompt", prompt=f"[{JUDGE}:{ok}] Is this safe?")
    asked = len(harness.api.list_requests(f"{JUDGE}:{ok}"))
    driver = run_calls(harness, bash("touch it"), folder=folder, trust=True, rules={"allow": ["Bash"]})
    assert list_decisions(driver) == [expected]
    assert ("not on Fridays" in driver.fetch_result_texts()[0]) is not ok
    (question,) = harness.api.list_requests(f"{JUDGE}:{ok}")[asked:]
    assert "touch it" in json.dumps(question.messages)
    assert question.body.get("tools") is None
    assert len(list_hook_runs(driver)) == 1


def test_a_plug_in_denies_a_call(own_harness: Callable[..., Harness], tmp_path: Path) -> None:
    place = tmp_path / "hooks"
    info = place / "fridays-1.0.dist-info"
    info.mkdir(parents=True)
    (place / "fridays_hook.py").write_text(PLUG_IN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fridays\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ostler.hooks]\nfridays = fridays_hook:fridays\n")
    harness = own_harness(PYTHONPATH=str(place))
    driver = run_calls(harness, bash("ls"), bash("ls -l"), rules={"allow": ["Bash"]})
    assert [behavior for behavior, _ in list_decisions(driver)] == ["deny", "allow"]
    assert "not on Fridays" in driver.fetch_result_texts()[0]
