"""What can go wrong with a request over HTTP.

OSError                     nobody is there, the name has no address, the certificate is wrong…
├── TimeoutError
│   ├── ConnectTimeout      no connection in the time that it may take
│   └── SilenceTimeout      a connection on which nothing comes, or nothing leaves
└── ConnectionBroken        it ended before the answer did
    ├── NotHttp             what came is no HTTP
    └── ProxyRefused        the proxy does not let us through
BadEncoding                 an answer that cannot be decompressed
"""


class ConnectTimeout(TimeoutError):
    """There is no connection in the time that it may take."""


class SilenceTimeout(TimeoutError):
    """Nothing came, or nothing could be sent, for too long."""


class ConnectionBroken(OSError):
    """The connection ended before the answer did."""


class NotHttp(ConnectionBroken):
    """What came is no HTTP, or its headers have no end."""


class ProxyRefused(ConnectionBroken):
    """The proxy does not let us through."""


class BadEncoding(Exception):
    """The answer cannot be decompressed."""
