"""The commands that concern providers: `auth`, `models`."""
