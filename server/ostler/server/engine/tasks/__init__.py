"""Background tasks: their registry, their sources, monitors, and the notifications to the model."""
