"""Words for the model that name only tools which the session has."""

import re
from typing import Final

from ostler.tools.context import Surroundings

_PASSAGE: Final = re.compile(r"<!-- (needs|lacks): ([\w ]+) -->(.*?)<!-- / -->", re.DOTALL)


def fitting(words: str, surroundings: Surroundings) -> str:
    """Without the passages that are about tools which are not there, or are only for where these are not.

    `<!-- needs: A B -->…<!-- / -->` is for a session that has both; `lacks` for any other.
    """

    def passage(found: re.Match[str]) -> str:
        return found[3] if surroundings.has(*found[2].split()) is (found[1] == "needs") else ""

    return _PASSAGE.sub(passage, words).strip()
