"""The handlers of the JSON-RPC methods, one module for each noun (session, turn, ask…)."""
