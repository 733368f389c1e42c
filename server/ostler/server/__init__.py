"""What makes it run: HTTP and JSON-RPC, the event log, the engine of sessions and turns, and the daemon itself."""
