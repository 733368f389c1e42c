"""Generators of the documents in docs/: OpenRPC, JSON Schema, TypeScript, the reference."""
