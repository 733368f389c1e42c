"""`ostler run`: a turn without a person."""
