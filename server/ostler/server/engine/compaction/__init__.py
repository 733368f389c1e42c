"""Makes a conversation shorter for its model: old results cleared, or all but the last messages summarised."""
