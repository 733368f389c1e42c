"""Programs that not every machine has. `make test` installs them where it may; elsewhere it says which are missing."""

import shutil

import pytest


def needs(*programs: str) -> pytest.MarkDecorator:
    """Leave a test out where one of the programs is missing."""
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
