"""What somebody on this machine who only has the port would try: wrong tokens, odd paths, other protocols, abuse."""

from contextlib import suppress
from typing import Final

from tests.security.pages import CALL
from tests.security.probe import OWN_HOST, TOKEN, Probe, build_request, make_raw_probe, open_connection, receive_all
from tests.security.target import Target

JSON: Final = "Content-Type: application/json"

_WRONG_CREDENTIALS: Final = (
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
_MISPLACED_TOKENS: Final = (
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
    "the PROXY protocol": b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" + build_request("GET /metrics"),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "HTTP/9.9": build_request("GET /metrics", version="HTTP/9.9"),
    "zeros": b"\x00" * 4096,
    "an unknown method": build_request("OSTLER /metrics"),
}


def _make_probe(
    outcome: str,
    name: str,
    line: str,
    *headers: str,
    host: str | None = OWN_HOST,
    body: str = "",
    version: str = "HTTP/1.1",
) -> Probe:
    return make_raw_probe(
        "scanner", name, build_request(line, *headers, host=host, body=body, version=version), outcome
    )


def _list_token_probes() -> list[Probe]:
    header = "Authorization: "
    right, wrong = f"{header}Bearer <TOKEN>", f"{header}Bearer <WRONG>"
    discover = CALL.replace("session/list", "rpc.discover")
    return [
        *(
            _make_probe("401", f"as authorization {given!r}", "GET /metrics", header + given)
            for given in _WRONG_CREDENTIALS
        ),
        *(_make_probe("401", f"only a header {given!r}", "GET /metrics", given) for given in _MISPLACED_TOKENS),
        _make_probe("401", "nothing", "GET /metrics"),
        _make_probe("401", "the token twice", "GET /metrics", right, right),
        _make_probe("401", "the right token before a wrong one", "GET /metrics", right, wrong),
        _make_probe("401", "the right token after a wrong one", "GET /metrics", wrong, right),
        _make_probe("400", "the token and a NUL", "GET /metrics", f"{right}\0"),
        _make_probe("400", "the token and a bare CR", "GET /metrics", f"{right}\rX"),
        _make_probe("400", "a blank before the colon", "GET /metrics", "Authorization : Bearer <TOKEN>"),
        _make_probe(
            "400", "the token in the fold of another header", "GET /metrics", "X-A: b\r\n Authorization: Bearer <TOKEN>"
        ),
        _make_probe("401", "the token in the body", "POST /rpc", JSON, body='{"token":"<TOKEN>"}'),
        _make_probe("401", "a call", "POST /rpc", JSON, body=CALL),
        _make_probe("401", "discovery", "POST /rpc", JSON, body=discover),
        _make_probe("401", "a batch", "POST /rpc", JSON, body=f"[{CALL},{discover}]"),
        _make_probe("401", "the end", "POST /rpc", JSON, body=CALL.replace("session/list", "server/shutdown")),
    ]


def _list_route_probes() -> list[Probe]:
    methods = ("HEAD", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "OPTIONS", "SEARCH")
    return [
        *(_make_probe("401", f"path {path}", f"GET {path}") for path in _PATHS),
        *(_make_probe("401", f"method {method}", f"{method} /rpc", JSON) for method in methods),
        _make_probe("400", "a tunnel through us", "CONNECT evil.example:443", host="evil.example:443"),
        _make_probe("400", "a tunnel to ourselves", f"CONNECT {OWN_HOST}"),
        _make_probe("401", "a range", "GET /metrics", "Range: bytes=0-1"),
        _make_probe("401", "if none matches", "GET /metrics", "If-None-Match: *"),
        _make_probe(
            "401",
            "HTTP/2 in clear",
            "GET /metrics",
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABk",
        ),
        _make_probe("403", "HTTP/1.0 without a host", "GET /metrics", host=None, version="HTTP/1.0"),
        _make_probe("401", "HTTP/1.0 with one", "GET /metrics", version="HTTP/1.0"),
        _make_probe("401", "HTTP/1.0 that stays", "GET /metrics", "Connection: keep-alive", version="HTTP/1.0"),
    ]


def _list_protocol_probes() -> list[Probe]:
    return [make_raw_probe("scanner", f"speaks {name}", words, "400") for name, words in _OTHER_PROTOCOLS.items()]


def _list_smuggling_probes() -> list[Probe]:
    """A second request hidden in the first: it must pass the access guard as well, or never be one."""
    inner = build_request("GET /metrics", TOKEN, host="evil.example").decode()
    hidden = build_request("GET /metrics").decode()
    chunked, length = "Transfer-Encoding: chunked", "Content-Length: 4"
    return [
        _make_probe("400", "length and chunks", "POST /rpc", length, chunked, body=f"0\r\n\r\n{inner}"),
        _make_probe("400", "chunks and length", "POST /healthz", chunked, length, body=f"0\r\n\r\n{inner}"),
        _make_probe("400", "two lengths", "POST /healthz", length, "Content-Length: 5", body=f"abcd{inner}"),
        _make_probe("400", "a length with a sign", "POST /healthz", "Content-Length: +4", body=f"abcd{inner}"),
        _make_probe("400", "a length below nothing", "POST /healthz", "Content-Length: -1", body=inner),
        _make_probe("400", "a length without end", "POST /healthz", f"Content-Length: {'9' * 40}", body=inner),
        _make_probe("400", "chunked, but not last", "POST /healthz", f"{chunked}, identity", body=f"0\r\n\r\n{inner}"),
        _make_probe("400", "chunked twice", "POST /healthz", chunked, chunked, body=f"0\r\n\r\n{inner}"),
        _make_probe("400", "a chunk of garbage", "POST /rpc", chunked, body=f"zz\r\n{inner}"),
        _make_probe("400", "a chunk that is too long", "POST /rpc", chunked, body=f"{'f' * 17}\r\nx"),
        make_raw_probe(
            "scanner", "lines that end in LF only", b"GET /metrics HTTP/1.1\nHost: localhost:<PORT>\n\n", "400"
        ),
        make_raw_probe(
            "scanner", "a request behind a probe", build_request("GET /healthz") + hidden.encode(), "200 401"
        ),
        make_raw_probe(
            "scanner", "another name behind a probe", build_request("GET /healthz") + inner.encode(), "200 403"
        ),
        make_raw_probe(
            "scanner",
            "a request behind a refusal",
            build_request("GET /metrics") + build_request("GET /metrics", TOKEN),
            "401",
        ),
        _make_probe("403", "a header split in two", "GET /metrics", "X-A: b\r\nHost: evil.example"),
        _make_probe("400", "a header without a name", "GET /metrics", ": b"),
        _make_probe("400", "a header without a colon", "GET /metrics", "Authorization"),
        _make_probe("400", "a target with a blank", "GET /healthz /metrics"),
        _make_probe("400", "a target with control bytes", "GET /met\x01rics"),
    ]


def _list_exhaustion_probes() -> list[Probe]:
    many = [f"X-{number}: {number}" for number in range(10_000)]
    large = f"Content-Length: {10 * 2**30}"
    begun = build_request("GET /healthz")[:-12]
    return [
        make_raw_probe(
            "scanner", "a giant header", build_request("GET /healthz", f"X-A: {'a' * 500_000}"), "431", "nothing"
        ),
        make_raw_probe("scanner", "a giant target", build_request(f"GET /{'a' * 500_000}"), "431", "nothing"),
        make_raw_probe("scanner", "ten thousand headers", build_request("GET /healthz", *many), "431", "nothing"),
        _make_probe("401", "a giant body that is only promised", "POST /rpc", JSON, large),
        _make_probe("401", "endless chunks that are only promised", "POST /rpc", JSON, "Transfer-Encoding: chunked"),
        _make_probe("401", "asks whether to go on", "POST /rpc", JSON, large, "Expect: 100-continue"),
        Probe("a giant body", "scanner", _flood, ("401", "nothing")),
        make_raw_probe("scanner", "silence", b"", "408"),
        make_raw_probe("scanner", "one byte", b"G", "408"),
        make_raw_probe("scanner", "half of the headers", begun, "408"),
        make_raw_probe("scanner", "HTTP/0.9, which has no headers", b"GET /metrics\r\n", "408"),
        make_raw_probe("scanner", "blank lines", b"\r\n" * 100, "408"),
        Probe("a byte now and then", "scanner", _trickle, ("408", "nothing")),
    ]


_MAX_BYTES: Final = 64 * 2**20


def _flood(target: Target) -> bytes:
    """Send until nobody takes it any more; sockets in between hold a few megabytes."""
    with open_connection(target) as connection:
        sent = connection.send(target.fill_in(build_request("POST /rpc", JSON, f"Content-Length: {10 * 2**30}")))
        with suppress(ConnectionError):
            while sent < _MAX_BYTES:
                sent += connection.send(b"x" * 65536)
            raise AssertionError(f"{sent} bytes of a stranger were taken")
        return receive_all(connection)


def _trickle(target: Target) -> bytes:
    """Each byte comes before one could lose patience; all of them together do not."""
    with open_connection(target) as connection:
        connection.settimeout(0.1)
        for byte in build_request("GET /healthz", f"X-A: {'a' * 600}"):
            with suppress(ConnectionError):
                connection.send(bytes([byte]))
            with suppress(TimeoutError, ConnectionResetError):
                return connection.recv(65536)
    raise AssertionError("a minute of single bytes was taken")


PROBES: Final = [
    *_list_token_probes(),
    *_list_route_probes(),
    *_list_protocol_probes(),
    *_list_smuggling_probes(),
    *_list_exhaustion_probes(),
]
