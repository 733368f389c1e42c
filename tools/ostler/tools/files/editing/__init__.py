"""How a file is changed: read-before-write, the plan of an edit, the write itself, and its diff."""
