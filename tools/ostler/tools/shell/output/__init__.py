"""What a command printed: its file, the text that the model sees, and pictures."""
