"""Pages that were read a moment ago: a model that asks a second question of one does not fetch it again."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from ostler.tools.web.page import ReadPage
from ostler.tools.web.url_policy import AllowedAddresses

SECONDS: Final = 15 * 60.0
_MAX_PAGES: Final = 50
_MAX_CHARS: Final = 8_000_000
"""Of all of them together, pictures included."""


class PageCache:
    """Bounded in pages, characters and time. Who may dial other addresses has pages of their own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pages: OrderedDict[tuple[str, AllowedAddresses], tuple[float, ReadPage]] = OrderedDict()
        self._chars = 0

    def get(self, url: str, allowed: AllowedAddresses) -> ReadPage | None:
        self._drop_old()
        found = self._pages.get((url, allowed))
        return found[1] if found is not None else None

    def put(self, url: str, allowed: AllowedAddresses, page: ReadPage) -> None:
        self._drop((url, allowed))
        self._pages[url, allowed] = (self._clock(), page)
        self._chars += page.chars
        while self._pages and (len(self._pages) > _MAX_PAGES or self._chars > _MAX_CHARS):
            self._drop(next(iter(self._pages)))

    def _drop_old(self) -> None:
        while self._pages:
            key, (since, _) = next(iter(self._pages.items()))
            if self._clock() - since < SECONDS:
                return
            self._drop(key)

    def _drop(self, key: tuple[str, AllowedAddresses]) -> None:
        dropped = self._pages.pop(key, None)
        if dropped is not None:
            self._chars -= dropped[1].chars
