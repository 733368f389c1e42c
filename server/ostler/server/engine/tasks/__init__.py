"""What goes on behind the calls: the registry of tasks, and what the model is told of them."""
