"""The tools for background tasks: TaskOutput, TaskStop, Monitor, Sleep."""
