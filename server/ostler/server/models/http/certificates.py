"""Whom we trust: the certificates of the system, or those that the environment names."""

import os
import ssl
import sys


def load_certificates() -> ssl.SSLContext:
    """Blocks for 20 to 40 ms: there are many. Raises OSError."""
    if file := os.environ.get("SSL_CERT_FILE"):
        return ssl.create_default_context(cafile=file)
    if folder := os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context(capath=folder)
    places = ssl.get_default_verify_paths()
    if sys.platform == "linux" and os.path.isfile(places.openssl_cafile):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(
            places.openssl_cafile, places.openssl_capath if os.path.isdir(places.openssl_capath) else None
        )
        return context
    # Imported here: where the system keeps its certificates elsewhere, this knows where, and takes 60 ms to import.
    import httpx2  # noqa: PLC0415

    return httpx2.create_ssl_context()
