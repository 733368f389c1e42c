"""Limits and other numbers that the daemon and its clients rely on."""

from typing import Final

PROTOCOL_VERSION: Final = "2026-11-16"
"""A date; within one version fields and events are only added."""

DEFAULT_PORT: Final = 7717

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
MAX_BATCH: Final = 50
MAX_DEPTH: Final = 100
"""How deep the JSON of a body may be nested."""

MAX_VALUES: Final = 500_000
"""How many values the JSON of a body may hold: parsing ten million empty lists would hold everybody up for seconds."""

DEFAULT_PAGE: Final = 50
MAX_PAGE: Final = 500

MAX_LINE_CHARS: Final = 500
MAX_TEXT_CHARS: Final = 10_000_000
MAX_METADATA_BYTES: Final = 64 * 1024
MAX_RULES: Final = 1000
MAX_DIRECTORIES: Final = 100
"""Bounds on what a session carries, since every `session.updated` repeats its small parts."""

IDEMPOTENCY_SECONDS: Final = 24 * 60 * 60
"""How long a repeated call with the same key gets the same answer."""

SSE_COMMENT_SECONDS: Final = 15
"""How often a quiet event stream says something, so that proxies keep it open."""

MAX_INPUT_BLOCKS: Final = 1000
"""Blocks in one input."""

MAX_WAIT_MS: Final = 3_600_000
"""The longest that one call waits for a turn; a client that wants to wait longer asks again."""

MAX_FILE_CHARS: Final = 30_000_000
"""Characters of base64 in one picture or document."""
