"""HTTP: sockets, access control, the router, and the endpoints for JSON-RPC and server-sent events."""
