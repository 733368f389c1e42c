"""The daemon as a process: starting it in the background, stopping it, and the end of its log."""
