"""The keys that are kept: the file that has them, and whether somebody else can read it."""

from collections.abc import Iterator

from ostler.clients.cli.checks.base import Finding, check_private_file
from ostler.protocol.credentials import (
    MAX_CREDENTIALS_BYTES,
    PROVIDERS,
    BadCredentials,
    StoredKey,
    find_stored_key,
    parse_credentials,
)
from ostler.protocol.places import Places


def check_credentials(places: Places) -> Iterator[Finding]:
    path = places.credentials_file
    finding = check_private_file(path, "keys")
    if finding is None:
        yield Finding("ok", "keys", "none is kept")
        return
    if finding.state != "ok":
        yield finding
        return
    try:
        stored = read_stored_keys(places)
    except (BadCredentials, OSError) as error:
        yield Finding("fail", "keys", str(error), f"Mend {path}, or move it away: until then nothing in it counts.")
        return
    named = [f"{name} (in the keyring)" if key.api_key is None else name for name, key in stored.items()]
    yield Finding("ok", "keys", f"{path}: {', '.join(named) or 'none'}")


def read_stored_keys(places: Places) -> dict[str, StoredKey]:
    """The entries of the file by provider; raises BadCredentials or OSError."""
    path = places.credentials_file
    with path.open("rb") as file:
        document = parse_credentials(path, file.read(MAX_CREDENTIALS_BYTES))
    found = {name: find_stored_key(path, document, name) for name in PROVIDERS}
    return {name: key for name, key in found.items() if key is not None}
