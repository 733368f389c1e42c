"""The daemon process: its lifecycle, the wiring of all parts, its instance file, housekeeping."""
