"""Files that a person mentions: found by a few letters of their path, and read."""
