"""The output of a command: its file, the text that the model sees, pictures, and what exit codes mean."""
