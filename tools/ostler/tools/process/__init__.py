"""Child processes: spawned, tagged, listed, and ended with everything below them."""
