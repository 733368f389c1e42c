"""Discovery: tools whose schemas a model gets only when it looks for them."""
