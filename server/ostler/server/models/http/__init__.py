"""A small HTTP/1.1 client on asyncio and httptools, which the server has loaded anyway: one origin, many requests."""
