"""How Read reads and shows a file: lines, media, stored results, and what was shown already."""
