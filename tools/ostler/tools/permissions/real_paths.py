"""Resolves many paths at one time, with a cache."""

import os


class RealPathCache:
    """`os.path.realpath` that resolves each folder once. For short use only: links change."""

    def __init__(self) -> None:
        self._cache = {"/": "/"}

    def __call__(self, path: str) -> str:
        known = self._cache.get(path)
        if known is None:
            known = self._cache[path] = self._resolve(path)
        return known

    def _resolve(self, path: str) -> str:
        above, name = os.path.split(path)
        if not os.path.isabs(path) or name in {"", ".", ".."}:
            return os.path.realpath(path)
        here = os.path.join(self(above), name)
        return os.path.realpath(here) if os.path.islink(here) else here
