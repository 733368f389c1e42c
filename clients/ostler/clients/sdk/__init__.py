"""The Python SDK; import it from `ostler.clients`."""
