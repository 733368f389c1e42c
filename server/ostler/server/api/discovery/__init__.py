"""The handlers of the methods about what a model is told: its skills, its prompt."""
