"""How a turn runs: session actors, the turn loop, the executor, permission and asks."""
