"""The turn loop: its input, requests to the model, limits, and end."""
