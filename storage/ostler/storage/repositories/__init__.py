"""One repository for each stored noun."""
