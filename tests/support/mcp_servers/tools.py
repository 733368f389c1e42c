"""A real MCP server with tools, by hand, of before 2026.

`python tools.py FOLDER [BEHAVIOUR…]`, with `slow` (greets when FOLDER/go is there), `mute` (never answers), `broken`
(leaves at once), `dying` (leaves after each listing), `shy` (leaves in each call), `many` (10,000 tools), `wrong`
(tools that no model can be sent), `changing` (another tool after each call), `huge` (an answer of 100 MB).
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def declare(name: str, description: str = "", **more: Any) -> Json:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": description or f"Does {name}.", "inputSchema": schema, **more}


TOOLS: list[Json] = [
    declare("echo", "Gives back a text.", annotations={"readOnlyHint": True}),
    declare("write", "Writes a text to a file."),
    declare("read_path", inputSchema={"type": "object", "properties": {"path": {"type": "string"}}}),
    declare("odd name!", "Has a name that no provider takes."),
    declare("picture"),
    declare("sound"),
    declare("bad_picture"),
    declare("link"),
    declare("structured"),
    declare("fails"),
    declare("refuses"),
    declare("steps"),
    declare("waits"),
    declare("asks"),
    declare("asks_url"),
    declare("samples"),
    declare("roots"),
]
WRONG: list[Json] = [
    {"name": "list_schema", "description": "d", "inputSchema": [1]},
    {"name": "text_schema", "description": "d", "inputSchema": {"type": "string"}},
    {"name": "large_schema", "inputSchema": {"type": "object", "description": "x" * 5_000_000}},
    {"name": "recursive", "inputSchema": {"type": "object", "properties": {"again": {"$ref": "#"}}}},
    {"name": "twice", "description": "the first", "inputSchema": {"type": "object"}},
    {"name": "twice", "description": "the second", "inputSchema": {"type": "object"}},
    {"name": "a b", "inputSchema": {"type": "object"}},
    {"name": "a_b", "inputSchema": {"type": "object"}},
    {"name": "x" * 200, "description": "y" * 100_000, "inputSchema": {"type": "object"}},
    {"inputSchema": {"type": "object"}},
    {"name": "hints", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "perhaps"}},
]


class Server:
    def __init__(self, folder: Path, behaviours: set[str]) -> None:
        self.folder = folder
        self.behaviours = behaviours
        self.lock = threading.Lock()
        self.answers: dict[str, Json] = {}
        self.answered = threading.Condition()
        self.calls = 0

    def write(self, message: Json) -> None:
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "mute" in self.behaviours:
                continue
            if "method" not in message:
                with self.answered:
                    self.answers[message["id"]] = message
                    self.answered.notify_all()
            elif message["method"] == "notifications/cancelled":
                (self.folder / "cancelled").write_text("yes")
            elif "id" in message:
                threading.Thread(target=self.answer, args=(message,), daemon=True).start()

    def answer(self, message: Json) -> None:
        params = message.get("params") or {}
        match message["method"]:
            case "initialize":
                while "slow" in self.behaviours and not (self.folder / "go").exists():
                    time.sleep(0.02)
                result: Json = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {"listChanged": True}, "resources": {}},
                    "serverInfo": {"name": "tools", "version": "1"},
                }
            case "tools/list":
                result = {"tools": self.list_tools()}
                if "dying" in self.behaviours:
                    self.write({"id": message["id"], "result": result})
                    os._exit(1)
            case "resources/list":
                result = {"resources": [{"uri": "kit://log", "name": "log", "mimeType": "text/plain"}]}
            case "resources/templates/list":
                result = {"resourceTemplates": [{"uriTemplate": "kit://day/{day}", "name": "day"}]}
            case "resources/read":
                blob = {"blob": "aGVsbG8=", "mimeType": "application/pdf"}
                what = {"kit://log": {"text": "a line"}, "kit://file": blob, "kit://bad": {"blob": "no base64"}}
                result = {"contents": [{"uri": params["uri"], **what.get(params["uri"], {"text": ""})}]}
            case "tools/call":
                self.calls += 1
                try:
                    result = self.call(params["name"], params.get("arguments") or {}, params.get("_meta") or {})
                except ValueError as error:
                    self.write({"id": message["id"], "error": {"code": -32602, "message": str(error)}})
                    return
            case method:
                self.write({"id": message["id"], "error": {"code": -32601, "message": f"There is no {method}"}})
                return
        self.write({"id": message["id"], "result": result})
        if message["method"] == "tools/call" and "changing" in self.behaviours:
            self.write({"method": "notifications/tools/list_changed"})

    def list_tools(self) -> list[Json]:
        if "many" in self.behaviours:
            return [declare(f"tool_{number}") for number in range(10_000)]
        if "wrong" in self.behaviours:
            return WRONG
        new = self.calls if "changing" in self.behaviours else 0
        return [*TOOLS, *(declare(f"new_{number}") for number in range(new))]

    def ask(self, method: str, params: Json) -> Json:
        key = f"q{time.monotonic_ns()}"
        self.write({"id": key, "method": method, "params": params})
        with self.answered:
            self.answered.wait_for(lambda: key in self.answers, 60)
        return self.answers[key]

    def call(self, name: str, given: Json, meta: Json) -> Json:  # noqa: PLR0912 - one for each tool
        if "shy" in self.behaviours:
            os._exit(1)
        if "huge" in self.behaviours:
            return text("x" * 100_000_000)
        match name:
            case "echo":
                return text(given.get("text", ""))
            case "write":
                (self.folder / "written").write_text(given["text"])
                return text("Written.")
            case "read_path":
                return text(Path(given["path"]).read_text())
            case "odd name!":
                return text("odd")
            case "picture":
                return {"content": [{"type": "image", "data": PICTURE, "mimeType": "image/png"}]}
            case "sound":
                return {"content": [{"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"}]}
            case "bad_picture":
                return {"content": [{"type": "image", "data": "no base64!", "mimeType": "image/png"}]}
            case "link":
                return {"content": [{"type": "resource_link", "uri": "notes://log", "name": "The log"}]}
            case "structured":
                return {"content": [], "structuredContent": {"answer": 42}, "_meta": {"from": "here"}}
            case "fails":
                return {**text("It is broken."), "isError": True}
            case "steps":
                for step in range(3):
                    progress = {
                        "progressToken": meta["progressToken"],
                        "progress": step + 1,
                        "total": 3,
                        "message": "on",
                    }
                    self.write({"method": "notifications/progress", "params": progress})
                return text("Stepped.")
            case "waits":
                (self.folder / "waiting").write_text("yes")
                time.sleep(60)
                return text("Waited.")
            case "asks":
                schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
                return text(json.dumps(self.ask("elicitation/create", {"message": "Who?", "requestedSchema": schema})))
            case "asks_url":
                params = {"mode": "url", "message": "Go there.", "url": "https://example.org/", "elicitationId": "e1"}
                return text(json.dumps(self.ask("elicitation/create", params)))
            case "samples":
                message = {"role": "user", "content": {"type": "text", "text": given.get("text", "Say hello.")}}
                return text(json.dumps(self.ask("sampling/createMessage", {"messages": [message], "maxTokens": 50})))
            case "roots":
                return text(json.dumps(self.ask("roots/list", {})))
        raise ValueError(f"There is no tool {name}")


def text(words: str) -> Json:
    return {"content": [{"type": "text", "text": words}]}


def main() -> None:
    folder, behaviours = Path(sys.argv[1]), set(sys.argv[2:])
    with (folder / "pids").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if "broken" in behaviours:
        sys.exit("no database, no tools")
    Server(folder, behaviours).serve()


if __name__ == "__main__":
    main()
