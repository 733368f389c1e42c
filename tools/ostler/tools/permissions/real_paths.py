"""Where many paths really lead, when they are asked for at one time."""

import os


class RealPaths:
    """`os.path.realpath` that looks at each folder once. To be thrown away soon: links change."""

    def __init__(self) -> None:
        self._known = {"/": "/"}

    def __call__(self, path: str) -> str:
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._look(path)
        return known

    def _look(self, path: str) -> str:
        above, name = os.path.split(path)
        if not os.path.isabs(path) or name in {"", ".", ".."}:
            return os.path.realpath(path)
        here = os.path.join(self(above), name)
        return os.path.realpath(here) if os.path.islink(here) else here
