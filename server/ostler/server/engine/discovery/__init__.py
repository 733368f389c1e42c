"""Tools that the model looks for: what is loaded, and how the model gets to know it."""
