"""Tool calls: the executor, the pipeline of one call, and its result."""
