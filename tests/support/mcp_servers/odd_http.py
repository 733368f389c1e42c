"""An MCP server over HTTP that misbehaves, in a thread of the test.

`no-goodbye` never answers the end of a session, `deaf` no notification; `unknown` wants a sign-in; `long` answers a
read with a megabyte.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def serve_odd_http(*behaviours: str) -> Iterator[str]:
    """Serve in a thread; gives the URL."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._say(405)

        def do_DELETE(self) -> None:
            if "no-goodbye" in behaviours:
                over.wait(60)
            self._say(200)

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if "unknown" in behaviours:
                self._say(401)
            elif "id" not in message:
                if "deaf" in behaviours:
                    over.wait(60)
                self._say(202)
            else:
                self._say(200, {"jsonrpc": "2.0", "id": message["id"], **self._answer(message)})

        def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
            match message["method"]:
                case "initialize":
                    info = {"name": "odd", "version": "1"}
                    return {
                        "result": {
                            "protocolVersion": "2025-06-18",
                            "capabilities": {"resources": {}},
                            "serverInfo": info,
                        }
                    }
                case "resources/read":
                    text = "x" * (1_000_000 if "long" in behaviours else 10)
                    return {"result": {"contents": [{"uri": message["params"]["uri"], "text": text}]}}
            return {"error": {"code": -32601, "message": "no such method"}}

        def _say(self, status: int, body: Any = None) -> None:
            data = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.send_header("mcp-session-id", "1")
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
