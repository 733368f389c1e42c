"""Work lists: what may stand in one, how it changes, and how the model's tools and people change it."""
