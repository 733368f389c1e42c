"""Tools of MCP servers: what a server declares, how its tools are named, and what becomes of their results."""
