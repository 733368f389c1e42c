"""Where model answers come from: one interface, one module per provider."""
