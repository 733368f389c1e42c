"""Templates of tool descriptions: passages that name other tools appear only where the session has those."""

import re
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools.context import SessionView

_CONDITIONAL_PASSAGE: Final = compile_later(r"<!-- (needs|lacks): ([\w ]+) -->(.*?)<!-- / -->", re.DOTALL)


def render_description(template: str, session: SessionView) -> str:
    """Fills the template: leaves out passages about tools that the session lacks, or is not to lack.

    `<!-- needs: A B -->…<!-- / -->` is for a session that has both; `lacks` for any other.
    """

    def render_passage(found: re.Match[str]) -> str:
        return found[3] if session.has(*found[2].split()) is (found[1] == "needs") else ""

    return _CONDITIONAL_PASSAGE.sub(render_passage, template).strip()
