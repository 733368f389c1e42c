"""The words everybody speaks: the JSON-RPC envelope, methods, events, shapes, ids and errors."""
