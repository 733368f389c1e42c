"""MCP servers (Model Context Protocol): their configuration, and the connections to them.

The library for it is loaded when the first connection is needed: it takes most of a second.
"""
