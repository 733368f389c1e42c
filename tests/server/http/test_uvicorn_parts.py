"""uvicorn is imported without its command line, and nobody who wants that later notices."""

import subprocess
import sys

PROGRAM = """
import sys
from ostler.server.http.uvicorn_parts import Config, Server
print("click" in sys.modules, "multiprocessing" in sys.modules, "uvicorn.main" in sys.modules)
import uvicorn
print(uvicorn.Server is Server, uvicorn.Config is Config)
import uvicorn.main
from uvicorn.main import main, run
print(uvicorn.main.Server is Server, callable(run), main.name)
"""


def test_the_server_comes_without_the_command_line_which_can_still_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout.splitlines(), done.stderr) == (["False False False", "True True", "True True main"], "")
