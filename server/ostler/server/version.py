"""The installed version of ostler."""

from functools import cache

from ostler.protocol.installed import find_version


@cache
def get_version() -> str:
    if (found := find_version("ostler")) is not None:
        return found
    # Imported here: reading the metadata costs more than most of the start.
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415
    from importlib.metadata import version as installed  # noqa: PLC0415

    try:
        return installed("ostler")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0+unknown"
