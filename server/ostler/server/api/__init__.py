"""The handlers of the methods, one module a noun."""
