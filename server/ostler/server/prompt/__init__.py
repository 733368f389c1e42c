"""What the model is told besides the conversation: who it is, where it is, and what has changed since."""
