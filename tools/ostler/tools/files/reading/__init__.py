"""What Read shows of a file: lines, media, stored results, and what was shown already."""
