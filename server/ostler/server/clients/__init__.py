"""Connected clients: presence, and the tools that they provide."""
