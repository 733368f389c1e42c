"""The wire protocol, shared by daemon and clients: the JSON-RPC envelope, methods, events, shapes, ids and errors."""
