"""The installed version of ostler."""

from functools import cache


@cache
def get_version() -> str:
    # Imported here: reading the metadata costs more than most of the start.
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415
    from importlib.metadata import version as installed  # noqa: PLC0415

    try:
        return installed("ostler")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0+unknown"
