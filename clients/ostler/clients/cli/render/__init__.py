"""What people read: turns, asks, results, diffs, transcripts."""
