"""File formats: notebooks, PDF, images, terminal text; untrusted files are parsed in worker processes."""
