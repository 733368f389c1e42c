"""uvicorn's server without uvicorn's command line.

`import uvicorn` imports its command line, too, and with it click and multiprocessing: forty modules, 8 ms of the start,
of which the daemon uses nothing. So an empty module stands in its place while the package is imported; whoever imports
`uvicorn.main` later gets the real one.
"""

import sys
from types import ModuleType
from typing import Final

_COMMAND_LINE: Final = "uvicorn.main"


def _import_package() -> None:
    if "uvicorn" in sys.modules:
        return
    stand_in = ModuleType(_COMMAND_LINE)
    setattr(stand_in, "__getattr__", lambda name: None)  # noqa: B010 - whatever the package takes from it
    sys.modules[_COMMAND_LINE] = stand_in
    try:
        import uvicorn  # noqa: PLC0415
    finally:
        del sys.modules[_COMMAND_LINE]
    for name in [name for name, value in vars(uvicorn).items() if value is None and not name.startswith("__")]:
        delattr(uvicorn, name)
    from uvicorn.server import Server  # noqa: PLC0415

    setattr(uvicorn, "Server", Server)  # noqa: B010 - what other packages know it by


_import_package()

from uvicorn.config import Config  # noqa: E402
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: E402
from uvicorn.server import Server  # noqa: E402

__all__ = ["Config", "HttpToolsProtocol", "Server"]
