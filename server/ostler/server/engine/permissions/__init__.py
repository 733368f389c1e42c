"""The permission decision: rules, modes, and suggested rules."""
