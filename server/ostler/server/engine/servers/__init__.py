"""The MCP servers of a session, as its turns and calls use them."""
