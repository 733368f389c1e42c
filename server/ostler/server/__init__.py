"""What makes it run: the log, the door, the dispatcher and the life of the daemon."""
