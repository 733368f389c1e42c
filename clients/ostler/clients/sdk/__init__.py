"""The Python SDK; import it from `ostler.clients`."""

import sys
from typing import Final

# Here, because `ostler serve` waits for all that is imported with it.
DAEMON_COMMAND: Final = (sys.executable, "-P", "-m", "ostler.server")
"""The command that is the daemon. `-P` keeps the folder it is started in from shadowing its modules."""
