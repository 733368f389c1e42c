"""The checks of `ostler doctor`."""
