"""What an agent can do. The contract, the registry and the tools move in with the turn engine."""
