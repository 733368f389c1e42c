"""How the file tools change a file: read-before-write, the plan of an edit, the write itself, and its diff."""
