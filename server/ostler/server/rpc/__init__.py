"""JSON-RPC 2.0: the dispatcher, locks, paging, and errors of params."""
