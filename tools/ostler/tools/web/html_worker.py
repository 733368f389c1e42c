"""The worker process that makes Markdown of a page in HTML: the page may be made to take all memory, or for ever."""

import html
import re
import sys
from typing import Any

from ostler.tools.formats import worker_limits

_TITLE = re.compile(r"<title[^>]*>(.{1,1000}?)</title", re.IGNORECASE | re.DOTALL)
_TITLE_WITHIN = 100_000
"""Characters at the start of a page in which its title is looked for."""


def _convert(wanted: dict[str, Any]) -> dict[str, Any]:
    # Imported after the limits are applied, which hold for it too.
    from html_to_markdown import (  # noqa: PLC0415
        ConversionError,
        ConversionOptions,
        PreprocessingOptions,
        convert,
    )

    def to_markdown(text: str, *, keep_navigation: bool) -> str:
        options = ConversionOptions(
            extract_metadata=False,
            inline_data_media="alt_text_only",
            preprocessing=PreprocessingOptions(
                enabled=True, remove_navigation=not keep_navigation, remove_forms=not keep_navigation
            ),
        )
        return str(convert(text, options).content or "").strip()

    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    found = _TITLE.search(text, 0, _TITLE_WITHIN)
    title = " ".join(html.unescape(found[1]).split()) if found else ""
    try:
        # A page that is nothing but its menu is a list of links that somebody wants to read.
        markdown = to_markdown(text, keep_navigation=False) or to_markdown(text, keep_navigation=True)
    except ConversionError as error:
        return {"trouble": str(error)[:500]}
    return {"title": title, "text": markdown[: wanted["most"]], "chars": len(markdown)}


if __name__ == "__main__":
    worker_limits.run_worker(_convert)
