"""The tools of the work list: TaskCreate, TaskGet, TaskUpdate and TaskList, or TodoWrite in their place."""
