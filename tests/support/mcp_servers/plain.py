"""A real MCP server of before 2026, by hand: a file is its resource, and whoever subscribed is told when it changes.

`python plain.py FILE [BEHAVIOUR…]`, with `silent` (never tells of changes, and says so), `noisy` (prints other things,
too), `stubborn` (does not leave when it is told to), `broken` (says why, and leaves at once), `mute` (never
answers), `mortal` (leaves when the file says `die`), `parent` (the same, and leaves a child that holds its output),
`shy` (leaves after the first answer about a resource), `asking` (asks without end, and hears nothing).
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

URI = "notes://log"


class Server:
    def __init__(self, path: Path, behaviours: set[str]) -> None:
        self.path = path
        self.behaviours = behaviours
        self.lock = threading.Lock()
        self.subscribed: set[str] = set()

    def write(self, message: dict[str, Any]) -> None:
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def serve(self) -> None:
        threading.Thread(target=self.watch, daemon=True).start()
        for line in sys.stdin:
            message = json.loads(line)
            if "mute" in self.behaviours or "id" not in message:
                continue
            if "noisy" in self.behaviours:
                sys.stdout.write(f"a word about {message['method']} \x1b[31m\n")
            answer = self.answer(message["method"], message.get("params") or {})
            self.write({"id": message["id"], **answer})
            if "shy" in self.behaviours and message["method"] == "resources/read":
                os._exit(0)
            while "asking" in self.behaviours and message["method"] == "resources/read":
                self.write({"id": "ping", "method": "ping"})

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                resources = {} if "silent" in self.behaviours else {"subscribe": True}
                info = {"name": "plain", "version": "1"}
                return {
                    "result": {
                        "protocolVersion": "2025-06-18",
                        "capabilities": {"resources": resources},
                        "serverInfo": info,
                    }
                }
            case "resources/read" if params["uri"] == URI:
                return {"result": {"contents": [{"uri": URI, "mimeType": "text/plain", "text": self.path.read_text()}]}}
            case "resources/read" if params["uri"] == "notes://picture":
                return {"result": {"contents": [{"uri": params["uri"], "mimeType": "image/png", "blob": "aGVsbG8="}]}}
            case "resources/read" if params["uri"] == "notes://broken":
                return {"result": {"contents": [{"uri": params["uri"], "blob": "abc"}]}}
            case "resources/read":
                return {"error": {"code": -32002, "message": f"There is no resource {params['uri']}"}}
            case "resources/subscribe":
                self.subscribed.add(params["uri"])
                return {"result": {}}
            case "resources/unsubscribe":
                self.subscribed.discard(params["uri"])
                return {"result": {}}
        return {"error": {"code": -32601, "message": f"There is no method {method}"}}

    def watch(self) -> None:
        known = self.path.read_bytes()
        while True:
            time.sleep(0.02)
            now = self.path.read_bytes()
            if b"die" in now and self.behaviours & {"mortal", "parent"}:
                self.path.write_bytes(now.replace(b"die", b"dead"))
                if "parent" in self.behaviours:
                    subprocess.Popen(["sleep", "1000"], start_new_session=True)
                os._exit(3)
            if now != known:
                known = now
                for uri in self.subscribed:
                    self.write({"method": "notifications/resources/updated", "params": {"uri": uri}})


def main() -> None:
    path, behaviours = Path(sys.argv[1]), set(sys.argv[2:])
    path.with_suffix(".pid").write_text(str(os.getpid()))
    path.with_suffix(".environment").write_text("\n".join(f"{name}={value}" for name, value in os.environ.items()))
    if "broken" in behaviours:
        sys.exit("no database, no notes")
    if "stubborn" in behaviours:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Server(path, behaviours).serve()
    if "stubborn" in behaviours:
        time.sleep(1000)


if __name__ == "__main__":
    main()
