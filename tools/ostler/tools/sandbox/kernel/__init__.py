"""What the kernel itself refuses or bounds for a sandboxed command: system calls, memory, processes, files."""
