"""The tools that read and change files: Read, Write, Edit, NotebookEdit."""
