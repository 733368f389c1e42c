"""Commands are read on several threads: one parser for all of them would end the process."""

import subprocess
import sys
from typing import Final

_SCRIPT: Final = """
import sys, threading
from ostler.tools.commands import parse_command

sys.setswitchinterval(1e-6)

def work(thread):
    for number in range(400):
        line = f"git log -{number} | head -{thread} && npm run build{thread}x{number} -- --out=d/{number}"
        parsed = parse_command(line)
        assert [part.words[0] for part in parsed.parts] == ["git", "head", "npm"], parsed

threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all read")
"""


def test_commands_are_read_on_several_threads_at_once() -> None:
    ended = subprocess.run([sys.executable, "-c", _SCRIPT], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "all read\n"), ended.stderr
