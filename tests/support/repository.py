"""Where things are in this repository."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
SUPPORT: Final = ROOT / "tests" / "support"
MCP_SERVERS: Final = SUPPORT / "mcp_servers"
DATABASES: Final = ROOT / "tests" / "storage" / "sqlite" / "databases"
"""Databases as earlier versions wrote them."""
