"""Files on the disk: paths, protected paths, atomic writes, encodings and file types."""
