"""Child processes: spawned, tagged, listed, and ended with all their descendants."""
