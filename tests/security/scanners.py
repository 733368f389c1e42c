"""What somebody on this machine who only has the port would try: wrong tokens, odd paths, other protocols, abuse."""

from contextlib import suppress
from typing import Final

from tests.security.pages import CALL
from tests.security.probe import OWN, TOKEN, Probe, connected, heard, raw, request
from tests.security.target import Target

JSON: Final = "Content-Type: application/json"

_WRONG: Final = (
    "",
    "Bearer",
    "Bearer ",
    "Bearer <WRONG>",
    "Bearer <TOKEN>x",
    "Bearer x<TOKEN>",
    "Bearer <TOKEN> <TOKEN>",
    "Bearer <TOKEN>,<TOKEN>",
    'Bearer "<TOKEN>"',
    "Bearer token=<TOKEN>",
    "Bearer\t<TOKEN>",
    "Bearer: <TOKEN>",
    "Bearer\xa0<TOKEN>",
    "BEARER <WRONG>",
    "bearer <TOKEN>=",
    "Token <TOKEN>",
    "Basic <BASIC>",
    "Basic <TOKEN>",
    "Digest username=<TOKEN>",
    "<TOKEN>",
    "null",
    "Bearer null",
    "Bearer undefined",
)
_ELSEWHERE: Final = (
    "Cookie: token=<TOKEN>; ostler=<TOKEN>; Authorization=Bearer <TOKEN>",
    "Proxy-Authorization: Bearer <TOKEN>",
    "X-Authorization: Bearer <TOKEN>",
    "X-Api-Key: <TOKEN>",
    "Ostler-Client: <TOKEN>",
    "Ostler-Token: <TOKEN>",
    "Referer: http://localhost:<PORT>/?token=<TOKEN>",
    "X-Forwarded-For: 127.0.0.1",
    "X-HTTP-Method-Override: GET",
)
_PATHS: Final = (
    "//rpc",
    "/rpc/",
    "/RPC",
    "/%72pc",
    "/../rpc",
    "/./rpc",
    "/events/..;/rpc",
    "/healthz/../metrics",
    "/healthz/..%2fmetrics",
    "/healthz%2f..%2fmetrics",
    "/healthz;/metrics",
    "/healthz/",
    "/healthz%00",
    "/readyz%20",
    "/HEALTHZ",
    "//healthz",
    "/metrics",
    "/openrpc.json",
    "/openapi.json",
    "/docs",
    "/redoc",
    "/results/r_1",
    "/sessions/<SESSION>/export",
    "/sessions/<SESSION>/export?format=jsonl",
    "/events?session=<SESSION>&after=0",
    "/static/../../../../etc/passwd",
    "/..%2f..%2f..%2fetc%2fpasswd",
    "/%2e%2e/%2e%2e/home/token",
    "/assets/%5c..%5ctoken",
    "/token",
    "/daemon.json",
    "/.git/config",
    "/.env",
    "/v1/triggers/x",
    "/favicon.ico",
    "/debug/pprof",
    "/server-status",
    "/?token=<TOKEN>",
)
_OTHER_PROTOCOLS: Final = {
    "TLS": b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03" + b"\x07" * 41,
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "SMB": b"\x00\x00\x00\x54\xffSMBr\x00\x00\x00\x00\x18\x01\x28" + b"\x00" * 68,
    "RDP": b"\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00",
    "Redis": b"*1\r\n$4\r\nPING\r\n",
    "memcached": b"stats\r\n",
    "SMTP": b"EHLO evil.example\r\n",
    "SOCKS": b"\x05\x01\x00",
    "MQTT": b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00",
    "Postgres": b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
    "the PROXY protocol": b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" + request("GET /metrics"),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "HTTP/9.9": request("GET /metrics", version="HTTP/9.9"),
    "zeros": b"\x00" * 4096,
    "an unknown method": request("OSTLER /metrics"),
}


def _scanner(
    outcome: str, name: str, line: str, *headers: str, host: str | None = OWN, body: str = "", version: str = "HTTP/1.1"
) -> Probe:
    return raw("scanner", name, request(line, *headers, host=host, body=body, version=version), outcome)


def _tokens() -> list[Probe]:
    header = "Authorization: "
    right, wrong = f"{header}Bearer <TOKEN>", f"{header}Bearer <WRONG>"
    discover = CALL.replace("session/list", "rpc.discover")
    return [
        *(_scanner("401", f"as authorization {given!r}", "GET /metrics", header + given) for given in _WRONG),
        *(_scanner("401", f"only a header {given!r}", "GET /metrics", given) for given in _ELSEWHERE),
        _scanner("401", "nothing", "GET /metrics"),
        _scanner("401", "the token twice", "GET /metrics", right, right),
        _scanner("401", "the right token before a wrong one", "GET /metrics", right, wrong),
        _scanner("401", "the right token after a wrong one", "GET /metrics", wrong, right),
        _scanner("400", "the token and a NUL", "GET /metrics", f"{right}\0"),
        _scanner("400", "the token and a bare CR", "GET /metrics", f"{right}\rX"),
        _scanner("400", "a blank before the colon", "GET /metrics", "Authorization : Bearer <TOKEN>"),
        _scanner(
            "400", "the token in the fold of another header", "GET /metrics", "X-A: b\r\n Authorization: Bearer <TOKEN>"
        ),
        _scanner("401", "the token in the body", "POST /rpc", JSON, body='{"token":"<TOKEN>"}'),
        _scanner("401", "a call", "POST /rpc", JSON, body=CALL),
        _scanner("401", "discovery", "POST /rpc", JSON, body=discover),
        _scanner("401", "a batch", "POST /rpc", JSON, body=f"[{CALL},{discover}]"),
        _scanner("401", "the end", "POST /rpc", JSON, body=CALL.replace("session/list", "server/shutdown")),
    ]


def _routes() -> list[Probe]:
    methods = ("HEAD", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "OPTIONS", "SEARCH")
    return [
        *(_scanner("401", f"path {path}", f"GET {path}") for path in _PATHS),
        *(_scanner("401", f"method {method}", f"{method} /rpc", JSON) for method in methods),
        _scanner("400", "a tunnel through us", "CONNECT evil.example:443", host="evil.example:443"),
        _scanner("400", "a tunnel to ourselves", f"CONNECT {OWN}"),
        _scanner("401", "a range", "GET /metrics", "Range: bytes=0-1"),
        _scanner("401", "if none matches", "GET /metrics", "If-None-Match: *"),
        _scanner(
            "401",
            "HTTP/2 in clear",
            "GET /metrics",
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABk",
        ),
        _scanner("403", "HTTP/1.0 without a host", "GET /metrics", host=None, version="HTTP/1.0"),
        _scanner("401", "HTTP/1.0 with one", "GET /metrics", version="HTTP/1.0"),
        _scanner("401", "HTTP/1.0 that stays", "GET /metrics", "Connection: keep-alive", version="HTTP/1.0"),
    ]


def _protocols() -> list[Probe]:
    return [raw("scanner", f"speaks {name}", words, "400") for name, words in _OTHER_PROTOCOLS.items()]


def _smuggled() -> list[Probe]:
    """A second request hidden in the first: it must meet the door as well, or never be one."""
    inner = request("GET /metrics", TOKEN, host="evil.example").decode()
    hidden = request("GET /metrics").decode()
    chunked, length = "Transfer-Encoding: chunked", "Content-Length: 4"
    return [
        _scanner("400", "length and chunks", "POST /rpc", length, chunked, body=f"0\r\n\r\n{inner}"),
        _scanner("400", "chunks and length", "POST /healthz", chunked, length, body=f"0\r\n\r\n{inner}"),
        _scanner("400", "two lengths", "POST /healthz", length, "Content-Length: 5", body=f"abcd{inner}"),
        _scanner("400", "a length with a sign", "POST /healthz", "Content-Length: +4", body=f"abcd{inner}"),
        _scanner("400", "a length below nothing", "POST /healthz", "Content-Length: -1", body=inner),
        _scanner("400", "a length without end", "POST /healthz", f"Content-Length: {'9' * 40}", body=inner),
        _scanner("400", "chunked, but not last", "POST /healthz", f"{chunked}, identity", body=f"0\r\n\r\n{inner}"),
        _scanner("400", "chunked twice", "POST /healthz", chunked, chunked, body=f"0\r\n\r\n{inner}"),
        _scanner("400", "a chunk of garbage", "POST /rpc", chunked, body=f"zz\r\n{inner}"),
        _scanner("400", "a chunk that is too long", "POST /rpc", chunked, body=f"{'f' * 17}\r\nx"),
        raw("scanner", "lines that end in LF only", b"GET /metrics HTTP/1.1\nHost: localhost:<PORT>\n\n", "400"),
        raw("scanner", "a request behind a probe", request("GET /healthz") + hidden.encode(), "200 401"),
        raw("scanner", "another name behind a probe", request("GET /healthz") + inner.encode(), "200 403"),
        raw("scanner", "a request behind a refusal", request("GET /metrics") + request("GET /metrics", TOKEN), "401"),
        _scanner("403", "a header split in two", "GET /metrics", "X-A: b\r\nHost: evil.example"),
        _scanner("400", "a header without a name", "GET /metrics", ": b"),
        _scanner("400", "a header without a colon", "GET /metrics", "Authorization"),
        _scanner("400", "a target with a blank", "GET /healthz /metrics"),
        _scanner("400", "a target with control bytes", "GET /met\x01rics"),
    ]


def _sizes_and_silences() -> list[Probe]:
    many = [f"X-{number}: {number}" for number in range(10_000)]
    large = f"Content-Length: {10 * 2**30}"
    begun = request("GET /healthz")[:-12]
    return [
        raw("scanner", "a giant header", request("GET /healthz", f"X-A: {'a' * 500_000}"), "431", "nothing"),
        raw("scanner", "a giant target", request(f"GET /{'a' * 500_000}"), "431", "nothing"),
        raw("scanner", "ten thousand headers", request("GET /healthz", *many), "431", "nothing"),
        _scanner("401", "a giant body that is only promised", "POST /rpc", JSON, large),
        _scanner("401", "endless chunks that are only promised", "POST /rpc", JSON, "Transfer-Encoding: chunked"),
        _scanner("401", "asks whether to go on", "POST /rpc", JSON, large, "Expect: 100-continue"),
        Probe("a giant body", "scanner", _flood, ("401", "nothing")),
        raw("scanner", "silence", b"", "408"),
        raw("scanner", "one byte", b"G", "408"),
        raw("scanner", "half of the headers", begun, "408"),
        raw("scanner", "HTTP/0.9, which has no headers", b"GET /metrics\r\n", "408"),
        raw("scanner", "blank lines", b"\r\n" * 100, "408"),
        Probe("a byte now and then", "scanner", _trickle, ("408", "nothing")),
    ]


_MOST_BYTES: Final = 64 * 2**20


def _flood(target: Target) -> bytes:
    """Send until nobody takes it any more; sockets in between hold a few megabytes."""
    with connected(target) as connection:
        sent = connection.send(target.filled_in(request("POST /rpc", JSON, f"Content-Length: {10 * 2**30}")))
        with suppress(ConnectionError):
            while sent < _MOST_BYTES:
                sent += connection.send(b"x" * 65536)
            raise AssertionError(f"{sent} bytes of a stranger were taken")
        return heard(connection)


def _trickle(target: Target) -> bytes:
    """Each byte comes before one could lose patience; all of them together do not."""
    with connected(target) as connection:
        connection.settimeout(0.1)
        for byte in request("GET /healthz", f"X-A: {'a' * 600}"):
            with suppress(ConnectionError):
                connection.send(bytes([byte]))
            with suppress(TimeoutError, ConnectionResetError):
                return connection.recv(65536)
    raise AssertionError("a minute of single bytes was taken")


PROBES: Final = [*_tokens(), *_routes(), *_protocols(), *_smuggled(), *_sizes_and_silences()]
